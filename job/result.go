package job

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/load"
)

// ResultDefinition is a Definition whose function returns a result of type R, which is
// stored with the job. Make it with DefineResult.
type ResultDefinition[A, R any] struct{ *Definition[A] }

// DefineResult is like Define, for a function that returns a result. If the function also
// returns an error, the result is dropped.
func DefineResult[A, R any](name string, version int, run func(ctx context.Context, args A) (R, error), defaults ...Defaults[A]) *ResultDefinition[A, R] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}}
	d.run = withResult(run)
	d.newResult = func() any { return new(R) }
	d.resultType = reflect.TypeFor[R]()
	d.register(run == nil, defaults)
	return &ResultDefinition[A, R]{d}
}

// withResult returns a function that keeps the result of run with the job.
func withResult[A, R any](run func(ctx context.Context, args A) (R, error)) runFunc[A] {
	return func(ctx context.Context, j *typed[A]) error {
		r, err := run(ctx, j.Arguments)
		if err == nil {
			j.setResult(&r)
		}
		return err
	}
}

// Result returns the result of a job of a queue. It does not wait for the job's end (see
// amboy.WaitJob). If the queue does not hold the job, it returns an error for which
// amboy.IsJobNotFoundError is true. It returns a *WrongTypeError for a job of another
// definition, a *NoResultError for a job that has not succeeded, and a *ResultTypeError if
// the stored result can't be decoded as an R. It blocks as the queue's Get does.
func (d *ResultDefinition[A, R]) Result(ctx context.Context, q amboy.Queue, id string) (r R, err error) {
	err = d.checkQueue("getting the result of a job", q)
	if err != nil {
		return r, err
	}
	j, err := load.Job(ctx, q, id)
	if err != nil {
		return r, fmt.Errorf("getting the result of job %q of queue %q: %w", id, q.ID(), err)
	}
	return d.ResultOf(j)
}

// ResultOf is like Result, for a job that was read from a queue.
func (d *ResultDefinition[A, R]) ResultOf(j amboy.Job) (r R, err error) {
	own, err := d.own(j)
	if err != nil {
		return r, fmt.Errorf("getting the result of a job: %w", err)
	}
	info := amboy.JobInfo{Status: j.Status(), Time: j.TimeInfo(), Retry: j.RetryInfo()}
	if state := amboy.StateOf(info, time.Now()); state != amboy.StateSucceeded {
		return r, &NoResultError{JobID: j.ID(), State: state, Err: j.Error()}
	}
	own.mu.Lock()
	left, decode := own.result, own.decodeResult
	own.mu.Unlock()
	switch {
	case left != nil:
		return *left.(*R), nil
	case decode == nil:
		return r, &NoResultError{JobID: j.ID(), State: amboy.StateSucceeded}
	}
	err = decode(&r)
	if err != nil {
		var none R
		return none, &ResultTypeError{JobID: j.ID(), Type: d.jobType.Name, Want: d.resultType.String(), Err: err}
	}
	return r, nil
}

// Result returns a pointer to the result of the last run; nil if there is none.
func (j *typed[A]) Result() any {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.result == nil && j.decodeResult != nil && j.definition.newResult != nil {
		// This is a copy of a job that has ended, which is being stored again.
		into := j.definition.newResult()
		if j.decodeResult(into) == nil {
			j.result = into
		}
	}
	return j.result
}

// RestoreResult keeps decode, which is called when the result is first needed.
func (j *typedBase) RestoreResult(decode func(into any) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result, j.decodeResult = nil, decode
}

// setResult sets the result of a run; nil means none.
func (j *typedBase) setResult(left any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result, j.decodeResult = left, nil
}

// leave sets the result, a pointer, if it has the type of the definition's results.
func (j *typed[A]) leave(result any) bool {
	if j.definition.resultType == nil || reflect.TypeOf(result).Elem() != j.definition.resultType {
		return false
	}
	j.setResult(result)
	return true
}

// NoResultError means that a job has no result: it has not ended yet, has not succeeded, or
// succeeded without having been run.
type NoResultError struct {
	// JobID is the ID of the job.
	JobID string
	// State is the job's state. If it is not final, the job may still produce a result.
	State amboy.JobState
	// Err is the job's error; nil if it has none.
	Err error
}

// Error names the job and its state, and includes its error.
func (e *NoResultError) Error() string {
	text := fmt.Sprintf("job %q has no result; its state is %s", e.JobID, e.State)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the job's error.
func (e *NoResultError) Unwrap() error { return e.Err }

// ResultTypeError means that the stored result of a job can't be decoded as its
// definition's result type.
type ResultTypeError struct {
	// JobID is the ID of the job, Type the name of its type.
	JobID, Type string
	// Want is the Go type of the definition's results.
	Want string
	// Err is the error of decoding.
	Err error
}

// Error names the job and the type.
func (e *ResultTypeError) Error() string {
	return fmt.Sprintf("the stored result of job %q of type %q is not a valid %s: %v", e.JobID, e.Type, e.Want, e.Err)
}

// Unwrap returns the error of decoding.
func (e *ResultTypeError) Unwrap() error { return e.Err }
