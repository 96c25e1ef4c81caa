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

// answer makes a call of the store, and returns its result as an event.
//
//nolint:contextcheck // It ends with the engine, not with a caller.
func (e *Engine) answer(command core.Command) core.Event {
	switch do := command.(type) {
	case core.Claim:
		return e.claim(do)
	case core.Look:
		return e.look(do)
	case core.Renew:
		return e.renew(do)
	case core.CheckCancels:
		return e.checkCancels(do)
	case core.Recover:
		return e.recover(do)
	case core.Forget:
		err := e.bounded(e.open, do.Call, e.forgetIfDue)
		return core.Forgotten{Call: do.Call, Err: err}
	case core.ScanRetries:
		err := e.bounded(e.open, do.Call, func(ctx context.Context) error { return e.scanRetries(ctx, do.All) })
		return core.RetriesScanned{Call: do.Call, Err: err}
	case core.Complete:
		return e.complete(do)
	case core.Release:
		return e.release(do)
	case core.Check:
		return core.Checked{Run: do.Run, Written: e.isWritten(do.Run)}
	default:
		panic(fmt.Sprintf("the engine does not know the command %T", command))
	}
}

// bounded makes a call with its time limit, and returns a panic as an error. It makes no
// call after ctx has ended: a driver may not check its context first, and the leases that
// a closed engine has left must not be renewed.
func (e *Engine) bounded(ctx context.Context, call core.Call, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !e.inline { // A limit would add a tenth to the time of a call.
		limited, cancel := context.WithTimeout(ctx, call.Limit)
		defer cancel()
		ctx = limited
	}
	return contain.Panic(func() error { return do(ctx) })
}

func (e *Engine) claim(do core.Claim) core.Claimed {
	answer := core.Claimed{Call: do.Call}
	answer.Err = e.bounded(e.open, do.Call, func(ctx context.Context) error {
		claimed, err := e.Driver.Claim(ctx, driver.ClaimRequest{
			Owner: e.ID, Queues: do.Demands, Limit: do.Limit, Now: e.Now(), LeaseTime: e.LeaseTime,
			Except: do.Except, HeldByProcess: true,
		})
		answer.Records, answer.Next, answer.Waits = claimed.Records, claimed.Next, claimed.Waits
		return err
	})
	e.Meter.claimed(len(answer.Records), answer.Err)
	return answer
}

// look asks the store which queues have work, and in a survey also when leases run out.
func (e *Engine) look(do core.Look) core.Looked {
	answer := core.Looked{Call: do.Call}
	answer.Err = e.bounded(e.open, do.Call, func(ctx context.Context) (err error) {
		if surveyor, ok := e.Driver.(driver.Surveyor); ok && do.Survey {
			answer.Work, answer.StaleIn, err = surveyor.Survey(ctx, e.Now(), do.Within)
			return err
		}
		answer.Work, err = e.Driver.Work(ctx, e.Now())
		return err
	})
	return answer
}

func (e *Engine) renew(do core.Renew) core.Renewed {
	answer := core.Renewed{Call: do.Call}
	sent := e.SinceStart()
	answer.Err = e.bounded(e.open, do.Call, func(ctx context.Context) (err error) {
		answer.Lost, err = e.Driver.Extend(ctx, do.Leases, e.LeaseTime)
		return err
	})
	if e.open.Err() == nil {
		e.Meter.renewed(answer.Err != nil || e.SinceStart()-sent > e.heartbeatPeriod())
	}
	return answer
}

func (e *Engine) checkCancels(do core.CheckCancels) core.CancelsFound {
	answer := core.CancelsFound{Call: do.Call}
	answer.Err = e.bounded(e.open, do.Call, func(ctx context.Context) (err error) {
		answer.Leases, err = e.Driver.CancelRequests(ctx, e.ID)
		return err
	})
	return answer
}

func (e *Engine) recover(do core.Recover) core.Recovered {
	answer := core.Recovered{Call: do.Call}
	answer.Err = e.bounded(e.open, do.Call, func(ctx context.Context) (err error) {
		answer.Jobs, err = e.Driver.RecoverStale(ctx, do.Keep...)
		return err
	})
	e.Meter.Interruptions.Add(uint64(max(answer.Jobs, 0)))
	if answer.Jobs > 0 {
		logging.Warning(e.open, message.Fields{"message": "recovered jobs whose worker is gone", "owner": e.ID, "jobs": answer.Jobs})
	}
	return answer
}

// complete writes the ends of runs. It does not end with the engine, so that finished
// runs are written.
func (e *Engine) complete(do core.Complete) core.Written {
	batch := make([]driver.Completion, len(do.Runs))
	for i, run := range do.Runs {
		batch[i] = driver.Completion{Lease: run.Lease, Record: run.End().Record, Next: run.End().Next}
	}
	return e.write(do.Call, len(batch), func(ctx context.Context) ([]error, error) { return e.Driver.Complete(ctx, batch) })
}

// release hands runs back.
func (e *Engine) release(do core.Release) core.Written {
	batch := make([]driver.HandBack, len(do.Runs))
	for i, run := range do.Runs {
		batch[i] = *run.End().HandBack
		batch[i].Lease = run.Lease
	}
	return e.write(do.Call, len(batch), func(ctx context.Context) ([]error, error) { return e.Driver.Release(ctx, batch) })
}

func (e *Engine) write(call core.Call, runs int, do func(context.Context) ([]error, error)) core.Written {
	answer := core.Written{Call: call}
	answer.Err = e.bounded(e.forWriting(), call, func(ctx context.Context) (err error) {
		answer.Errs, err = do(ctx)
		if err == nil && len(answer.Errs) != runs {
			return fmt.Errorf("the driver returned %d results for %d jobs", len(answer.Errs), runs)
		}
		return err
	})
	answer.Final = answer.Err != nil && isFinal(answer.Err)
	return answer
}

// isFinal reports whether a write that failed would fail again.
func isFinal(err error) bool {
	var panicked *amboy.PanicError
	return errors.As(err, &panicked) || errors.Is(err, driver.ErrClosed)
}

// isWritten reports whether a call that returned an error wrote the end of a run all the
// same.
func (e *Engine) isWritten(run *core.Run) bool {
	ended := run.End().Record
	var r *driver.Record
	err := contain.Panic(func() (err error) {
		ctx, cancel := context.WithTimeout(e.forWriting(), DriverTimeout)
		defer cancel()
		r, err = e.Driver.Get(ctx, run.Lease.Queue, ended.JobID())
		return err
	})
	if err != nil {
		return false
	}
	if run.Transacted() && isSuccess(r) != isSuccess(ended) {
		return false // its transaction was committed after all
	}
	if run.End().Next != nil && r.Name != run.Lease.Name {
		return true
	}
	if ended.RetryInfo.ShouldRetry() {
		// The record still waits for its retry, or has been replaced.
		return r.Name != run.Lease.Name || (r.Status.Completed && r.Status.ModificationCount == run.Lease.Count)
	}
	return driver.HasEndedUnder(r, run.Lease)
}

// isSuccess reports whether a record ended without an error.
func isSuccess(r *driver.Record) bool {
	return driver.StateOf(r, r.TimeInfo.End) == amboy.StateSucceeded
}
