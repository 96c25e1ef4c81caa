package job

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/registrations"
	"github.com/mongodb/amboy/retry"
)

// ErrNotHere is the error of a run of a job that this process has no function for.
var ErrNotHere = errors.New("the job has no function in this process: it is for outside workers")

// Declare is like Define for jobs whose function is elsewhere: outside workers run them, in
// any language (see package outside), a Go process that calls Bind, or one in which Define has
// the same name. The jobs are stored as JSON, with the json tags of the arguments. Queues that
// hold jobs by reference refuse them before Bind. A default RetryPolicy is stored with the jobs,
// so it must be one of package retry.
func Declare[A any](name string, version int, defaults ...Defaults[A]) *Definition[A] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}, declared: true}
	d.run = d.runBound
	d.register(false, defaults)
	return d
}

// DeclareResult is Declare for jobs that produce a result. The JSON that a worker sends as
// the result is decoded as an R.
func DeclareResult[A, R any](name string, version int, defaults ...Defaults[A]) *ResultDefinition[A, R] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}, declared: true}
	d.run = d.runBound
	d.newResult = func() any { return new(R) }
	d.resultType = reflect.TypeFor[R]()
	d.register(false, defaults)
	return &ResultDefinition[A, R]{d}
}

// Bind gives a definition made by Declare its function, so that this process runs its jobs.
// The function can use what the process opens when it starts, such as a database handle, and
// processes that only put the jobs do not link its code:
//
//	err := jobs.SendMail.Bind(func(ctx context.Context, m jobs.Mail) error { return server.Send(ctx, m) })
//
// Call it before the queues start: a job that starts earlier is left to others. A later call
// replaces the function for runs that begin afterwards. Bind returns the definition's error if it
// can't be used, and an *InvalidDefinitionError for a nil function and for a definition that
// was not made by Declare. It is safe for concurrent use.
func (d *Definition[A]) Bind(run func(ctx context.Context, args A) error) error {
	if run == nil {
		return d.bind(nil)
	}
	return d.bind(func(ctx context.Context, j *typed[A]) error { return run(ctx, j.Arguments) })
}

// Bind is Definition.Bind for a function that returns a result.
func (d *ResultDefinition[A, R]) Bind(run func(ctx context.Context, args A) (R, error)) error {
	if run == nil {
		return d.bind(nil)
	}
	return d.bind(withResult(run))
}

func (d *Definition[A]) bind(run runFunc[A]) error {
	switch {
	case d.err != nil:
		return d.err
	case !d.declared:
		return &InvalidDefinitionError{Name: d.jobType.Name, Field: "function", Value: "of Define", Rule: "must not be replaced: use Declare to bind a function later"}
	case run == nil:
		return &InvalidDefinitionError{Name: d.jobType.Name, Field: "function", Rule: "must not be nil"}
	}
	d.bound.Store(&run)
	registrations.Changed() // queues that have left jobs of this type to others claim them again
	return nil
}

// runBound runs a job of a declared definition.
func (d *Definition[A]) runBound(ctx context.Context, j *typed[A]) error {
	run := d.bound.Load()
	if run == nil {
		return amboy.NonRetryable(ErrNotHere)
	}
	return (*run)(ctx, j)
}

// runsHere reports whether the definition has a function in this process.
func (d *Definition[A]) runsHere() bool { return !d.declared || d.bound.Load() != nil }

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
