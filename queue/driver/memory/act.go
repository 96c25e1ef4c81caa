package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Act implements driver.Driver. If its context ends, it returns what was done until then,
// and the error.
func (d *Driver) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	if err := req.Action.Validate(); err != nil {
		return driver.Acted{}, err
	}
	if err := checkLimit(req.Limit); err != nil {
		return driver.Acted{}, err
	}
	w, err := d.newWalk(req.Query, req.After, false)
	if err != nil {
		return driver.Acted{}, err
	}
	var acted driver.Acted
	err = d.walk(ctx, w, d.lock, func(e *entry) bool {
		if !e.Job.queue.schedule.Allows(e, req.Action.Kind, w.now) || req.Action.IsStale(e.Job.record.Status.ModificationCount) {
			acted.Skipped++
		} else {
			acted.Done++
			if !req.DryRun {
				d.act(e, req.Action, w.now)
			}
		}
		return acted.Done+acted.Skipped < req.Limit
	})
	if acted.Done > 0 && !req.DryRun {
		news := driver.Anywhere
		if len(req.Query.Queues) == 1 {
			news = driver.In(req.Query.Queues[0])
		}
		d.subscribers.Notify(news)
	}
	acted.Next = d.cursor(w)
	if err != nil {
		return acted, fmt.Errorf("action %q: after %d records: %w", req.Action.Kind, acted.Done, err)
	}
	return acted, nil
}

// act applies an action to an entry whose state allows it.
func (d *Driver) act(e *entry, a driver.Action, now time.Time) {
	d.touch(e.Job.queue)
	s := &e.Job.queue.schedule
	switch a.Kind {
	case driver.RunNow, driver.Reschedule, driver.Park, driver.Unpark, driver.Restart, driver.Edit:
		e.Job.record.Status.ModificationCount++
	}
	switch a.Kind {
	case driver.Cancel:
		d.cancel(e, a, now)
	case driver.RunNow:
		reschedule(e, earliest(e.WaitUntil, now), now)
	case driver.Reschedule:
		reschedule(e, a.At, now)
	case driver.Prioritize:
		prioritize(e, a.Priority)
	case driver.Park:
		e.Job.reason = a.Reason
		s.Park(e)
	case driver.Unpark:
		e.Job.reason = ""
		e.Job.record.Status.Interruptions = e.Job.record.Status.Interruptions.Forgiven()
		s.Unpark(e, now)
	case driver.Restart:
		d.restart(e, a, now)
	case driver.Delete:
		s.Remove(e)
	case driver.Edit:
		edit(e, a.Edit, now)
	}
}

func prioritize(e *entry, priority int) {
	e.Job.record.Priority = priority
	e.Job.queue.schedule.Prioritize(e, priority)
}

func edit(e *entry, to *driver.EditedFields, now time.Time) {
	if to.Body != nil {
		e.Job.record.Job = *to.Body
	}
	if to.Priority != nil {
		prioritize(e, *to.Priority)
	}
	if to.WaitUntil != nil {
		reschedule(e, *to.WaitUntil, now)
	}
}

// cancel ends an entry, or marks it for its owner if it is running.
func (d *Driver) cancel(e *entry, a driver.Action, now time.Time) {
	r := &e.Job.record
	r.Status.Reason, r.ForgetAt = a.Reason, a.ForgetAt
	if e.Place() == schedule.Running {
		r.CancelRequested = true
		return
	}
	d.endCanceled(e, now)
}

// endCanceled ends an entry whose record has the reason and the retention time of a Cancel
// action.
func (d *Driver) endCanceled(e *entry, now time.Time) {
	r := &e.Job.record
	r.Status.Completed, r.Status.InProgress = true, false
	r.Status.Outcome = amboy.OutcomeCanceled
	r.Status.ModificationCount++
	r.RetryInfo.NeedsRetry = false
	r.TimeInfo.End = now
	r.CancelRequested = false
	d.finish(e)
}

func reschedule(e *entry, at, now time.Time) {
	e.Job.record.TimeInfo.WaitUntil = at
	if e.Place() != schedule.Parked {
		e.Job.reason = ""
	}
	e.Job.queue.schedule.Reschedule(e, at, now)
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// restart resets a finished record to its state at insertion, except for its attempt errors
// and its lease count.
func (d *Driver) restart(e *entry, a driver.Action, now time.Time) {
	d.keep(e)
	r := &e.Job.record
	r.Status = amboy.JobStatusInfo{
		ModificationTime:  r.Status.ModificationTime,
		ModificationCount: r.Status.ModificationCount,
		Attempts:          r.Status.Attempts,
		DroppedErrors:     r.Status.DroppedErrors,
	}
	r.TimeInfo.Start, r.TimeInfo.End, r.TimeInfo.DispatchBy = time.Time{}, time.Time{}, time.Time{}
	r.ForgetAt = time.Time{}
	if !a.At.IsZero() {
		r.TimeInfo.WaitUntil, e.WaitUntil, e.Since = a.At, a.At, time.Time{}
	}
	r.Progress, r.Result = nil, nil
	if r.Dependency != nil && len(r.Dependency.Failed) > 0 {
		dependency := *r.Dependency
		dependency.Failed = nil
		r.Dependency = &dependency
	}
	r.Scopes = e.Scopes.AtPut()
	e.Job.reason = ""
	var edges []string
	if r.Dependency != nil && !a.IgnoreEdges {
		edges = r.Dependency.Edges
	}
	e.Job.queue.schedule.Restart(e, edges, now)
}
