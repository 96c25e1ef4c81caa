package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// handBackNow gives a lease back, so that the job may run again at once.
var handBackNow = core.End{HandBack: &driver.HandBack{}}

// finish ends a run, and calls then when the store has that, refuses it, or it is given
// up. It does not wait for that, unless the store takes no time.
func (e *engine) finish(run *core.Run, end core.End, then func(error)) {
	run.Then = then
	e.happen(core.Finished{Run: run, End: end})
}

// waitForEnd waits until the end of a run is done with. When ctx ends first it is given
// up.
func (e *engine) waitForEnd(ctx context.Context, run *core.Run, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	e.happen(core.GivenUp{Run: run})
	err := <-done
	if errors.Is(err, core.ErrGivenUp) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// handBack ends a run that is not to go on, and for whose end nobody waits.
func (e *engine) handBack(run *core.Run, end core.End) {
	e.happen(core.Finished{Run: run, End: end})
}

// drop ends a run without writing anything: its job runs again when its lease is over.
func (e *engine) drop(run *core.Run) { e.handBack(run, core.End{}) }

// ended forgets the job of a run. The caller holds the lock.
func (e *engine) ended(run *core.Run) {
	if run.Job != nil && e.runs[run.Job] == run {
		delete(e.runs, run.Job)
	}
}

// done tells whoever ended a run what became of it.
func (e *engine) done(run *core.Run, err error) {
	if run.Then != nil {
		e.report("what follows the end of a job panicked", errorOfPanic(func() error {
			run.Then(err)
			return nil
		}))
		return
	}
	if err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		fields := e.failure("could not hand a job back", err)
		fields["queue"], fields["record"] = run.Lease.Queue, run.Lease.Name
		logging.Error(e.open, fields)
	}
}

// refused logs that the store did not take the end of a run.
func (e *engine) refused(run *core.Run, err error) {
	logging.Error(e.open, message.Fields{
		"message": "could not write that a job ended; trying again until the store takes it",
		"queue":   run.Lease.Queue,
		"record":  run.Lease.Name,
		"error":   err.Error(),
	})
}
