package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// isUnknown reports whether an error from decoding a record means that this process does
// not know the record's kind or lacks its key. A driver returns a record that it can't decode without a
// type; no process can run such a record.
func isUnknown(r *driver.Record, err error) bool {
	return r.Type != "" && (registry.IsUnknown(err) || errors.Is(err, codec.ErrKeyUnavailable))
}

// leave hands back a record whose kind this process does not know, or whose key it lacks.
// From then on the engine's claims leave out an unknown kind.
func (q *Queue) leave(ctx context.Context, run *core.Run, reason error) {
	if errors.Is(reason, codec.ErrKeyUnavailable) {
		_, err := registry.GetJobFactory(run.Record.Type)
		if err == nil {
			q.LeaveForKey(ctx, run, reason)
			return
		}
		reason = err // it would not run here with the key either
	}
	kind := driver.KindOf(run.Record)
	if !q.Engine.leaveToOthers(run, kind) {
		return
	}
	fields := q.failure("unknown job type; its jobs are left to other processes", run.Record.JobID(), reason)
	fields["kind"] = kind.String()
	logging.Warning(ctx, fields)
	// The type may have been registered since it was not found.
	err := contain.Panic(func() error {
		_, err := q.Form.Resolve(run.Record)
		return err
	})
	if !isUnknown(run.Record, err) {
		q.Engine.registered()
	}
}

// leaveOutside hands back a record that outside workers run. The engine's claims leave out
// its kind, like an unknown one, but no operator has to know.
func (q *Queue) leaveOutside(run *core.Run) {
	kind := driver.KindOf(run.Record)
	q.Engine.outsideKinds.Store(kind, true)
	q.Engine.leaveToOthers(run, kind)
}

// endUnread ends an expired record whose kind this process does not know. It never runs,
// so it does not have to be decoded.
func (q *Queue) endUnread(ctx context.Context, run *core.Run) {
	id, deadline := run.Record.JobID(), run.Record.TimeInfo.DispatchBy.Format(time.RFC3339Nano)
	late := fmt.Errorf("job %q was not started by its dispatch-by time, %s", id, deadline)
	q.endUncalled(ctx, run, amboy.OutcomeExpired, late, func(err error) {
		if err != nil {
			logging.Error(ctx, q.failure("could not end a job that is not to run", id, err))
		}
	})
}

// endUncalled ends a run for good with an error, without calling its job, and calls then with the
// result. It may return before that.
func (q *Queue) endUncalled(ctx context.Context, run *core.Run, outcome amboy.Outcome, reason error, then func(error)) {
	now := q.Engine.Now()
	r := *run.Record
	r.Status.Errors, r.Status.Attempts = slices.Clip(r.Status.Errors), slices.Clip(r.Status.Attempts) // the originals are shared
	r.Status.AddError(reason, r.RetryInfo.CurrentAttempt, now)
	r.Status.Completed, r.Status.InProgress = true, false
	r.Status.Outcome = outcome
	r.TimeInfo.End = now
	r.RetryInfo.NeedsRetry = false
	r.ForgetAt = q.ForgetAt(nil, &r, now)
	q.Engine.Finish(run, core.End{Record: &r}, func(err error) {
		defer then(err)
		if err != nil {
			q.Engine.changed(q)
			return
		}
		q.recordEnded(ctx, &r, now)
	})
}

// leaveToOthers hands a run back, and makes claims leave out its kind. first reports
// whether claims did not leave it out before.
func (e *Engine) leaveToOthers(run *core.Run, kind driver.Kind) (first bool) {
	e.hasUnknown.Store(true)
	e.coreMu.Lock()
	first = !slices.Contains(e.core.Unknown(), kind)
	commands := e.step(core.Finished{Run: run, End: core.End{HandBack: &driver.HandBack{}, Unknown: true}}, nil)
	e.coreMu.Unlock()
	e.carryOut(commands)
	if first {
		e.Announcer.queuesChanged()
	}
	return first
}

// unknownKinds returns the kinds that claims leave out.
func (e *Engine) unknownKinds() []driver.Kind {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.core.Unknown()
}

// unknownKindsToReport returns the kinds that claims leave out, except those for outside
// workers.
func (e *Engine) unknownKindsToReport() []driver.Kind {
	return slices.DeleteFunc(slices.Clone(e.unknownKinds()), func(kind driver.Kind) bool {
		_, isOutside := e.outsideKinds.Load(kind)
		return isOutside
	})
}

// registered makes claims try all kinds again, after a type was registered. It does not
// block, because it is called on the goroutine that registers.
func (e *Engine) registered() {
	if !e.hasUnknown.Swap(false) {
		return
	}
	e.Note(core.Registered{})
	e.Announcer.queuesChanged()
}

// meetUnknown records that this process does not know the kind of a record that was not
// claimed.
func (e *Engine) meetUnknown(r *driver.Record) {
	kind := driver.KindOf(r)
	if slices.Contains(e.unknownKinds(), kind) {
		return
	}
	e.hasUnknown.Store(true)
	e.Happen(core.Unknown{Kind: kind})
	e.Announcer.queuesChanged()
	logging.Warning(e.open, message.Fields{
		"message": "unknown job type; its jobs are left to other processes",
		"owner":   e.ID,
		"queue":   r.Group,
		"job_id":  r.JobID(),
		"kind":    kind.String(),
	})
}
