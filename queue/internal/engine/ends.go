package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// HandBackNow releases a lease, so that the job may run again at once.
var HandBackNow = core.End{HandBack: &driver.HandBack{}}

// handBackStarted is HandBackNow for a job that has begun to run.
var handBackStarted = core.End{HandBack: &driver.HandBack{Started: true}}

// Finish ends a run. It calls then when the store has accepted or refused the end, or the
// end is given up. Finish does not wait for that, unless calls of the store take no time.
func (e *Engine) Finish(run *core.Run, end core.End, then func(error)) {
	run.Then = then
	e.Happen(core.Finished{Run: run, End: end})
}

// Result returns a channel for the result of one end, for WaitForEnd.
func (e *Engine) Result() chan error {
	if spare, ok := e.results.Get().(chan error); ok {
		return spare
	}
	return make(chan error, 1)
}

// WaitForEnd waits until done, which is from Result, has the result of a run. If ctx ends
// first, it gives up the end.
func (e *Engine) WaitForEnd(ctx context.Context, run *core.Run, done chan error) error {
	defer e.results.Put(done)
	select {
	case err := <-done:
		return err
	default: // it is not written yet
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	e.Happen(core.GivenUp{Run: run})
	err := <-done
	if errors.Is(err, core.ErrGivenUp) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// HandBack ends a run that does not continue. No caller waits for its end.
func (e *Engine) HandBack(run *core.Run, end core.End) {
	e.Happen(core.Finished{Run: run, End: end})
}

// drop ends a run without writing anything. Its job runs again when its lease expires.
func (e *Engine) drop(run *core.Run) { e.HandBack(run, core.End{}) }

// ended removes the job of a run. The caller holds the lock.
func (e *Engine) ended(run *core.Run) {
	if run.Job != nil && e.runs[run.Job] == run {
		delete(e.runs, run.Job)
	}
}

// done reports the result of an end to the caller that ended the run.
func (e *Engine) done(run *core.Run, err error) {
	if run.Then != nil {
		e.Report("a function after the end of a job panicked", contain.Panic(func() error {
			run.Then(err)
			return nil
		}))
		return
	}
	if err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		fields := e.Failure("could not hand a job back", err)
		fields["queue"], fields["job_id"], fields["job_type"] = run.Lease.Queue, run.Record.JobID(), run.Record.Type
		logging.Error(e.open, fields)
	}
}

// refused logs that the store refused the end of a run.
func (e *Engine) refused(run *core.Run, err error) {
	r := run.Record
	if r == nil { // it does not run here
		r = run.End().Record
	}
	logging.Error(e.open, message.Fields{
		"message":  "could not write the end of a job; trying again until the store accepts it",
		"queue":    run.Lease.Queue,
		"job_id":   r.JobID(),
		"job_type": r.Type,
		"error":    err.Error(),
	})
}
