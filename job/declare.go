package job

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/retry"
)

// ErrNotHere is the error of a run of a job that this process has no function for.
var ErrNotHere = errors.New("the job has no function in this process: it is for outside workers")

// Declare is like Define for jobs that this process puts and does not run: outside workers
// run them, in any language (see package outside), or a Go process in which Define has the
// same name. The jobs are stored as JSON, with the json tags of the arguments. Queues
// that hold jobs by reference refuse them. A default RetryPolicy is stored with the jobs, so
// it must be one of package retry.
func Declare[A any](name string, version int, defaults ...Defaults[A]) *Definition[A] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}, declared: true}
	d.run = notHere
	d.register(false, defaults)
	return d
}

// DeclareResult is Declare for jobs that produce a result. The JSON that a worker sends as
// the result is decoded as an R.
func DeclareResult[A, R any](name string, version int, defaults ...Defaults[A]) *ResultDefinition[A, R] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}, declared: true}
	d.run = notHere
	d.newResult = func() any { return new(R) }
	d.resultType = reflect.TypeFor[R]()
	d.register(false, defaults)
	return &ResultDefinition[A, R]{d}
}

func notHere[A any](context.Context, *typed[A]) error { return amboy.NonRetryable(ErrNotHere) }

// storeDefaults stores with each job the defaults that are otherwise read from the
// definition, because the process that ends the job may not have it.
func (s *settings) storeDefaults(policy amboy.RetryPolicy, retention amboy.Retention) {
	if policy != nil {
		RetryPolicy(policy)(s)
	}
	if retention != (amboy.Retention{}) {
		Retention(retention)(s)
	}
}

// RetryIn makes the next attempt wait for a time, whatever the policies say. Package queue
// calls it when a worker asked for that.
func (j *typedBase) RetryIn(delay time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.retryIn = retry.Fixed{Wait: delay}
}

func (j *typedBase) askedDelay() amboy.RetryPolicy {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.retryIn
}
