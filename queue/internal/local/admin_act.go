package local

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Act implements driver.Admin. If ctx ends before it is done, Act returns what was done
// until then and an error. A restarted job keeps its place in the order of Find. A
// completed job whose run has not returned can't be restarted. The body of a job can't be
// edited.
func (a localAdmin) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	if err := req.Action.Validate(); err != nil {
		return driver.Acted{}, err
	}
	if a.IsStopped() {
		return driver.Acted{}, fmt.Errorf("action %q: queue %q: %w", req.Action.Kind, a.ID(), amboy.ErrQueueClosed)
	}
	w, err := a.newWalk(req.Query, req.After, false, req.Limit)
	if err != nil {
		return driver.Acted{}, err
	}
	act := localAct{ActRequest: req, queue: a.Queue}
	for more := true; more; {
		if err = ctx.Err(); err != nil {
			break
		}
		more = a.actStride(w, &act)
		act.publish()
	}
	act.done.Next = a.cursor(w)
	if err != nil {
		return act.done, fmt.Errorf("action %q: after %d records: %w", req.Action.Kind, act.done.Done, err)
	}
	return act.done, nil
}

// localAct is an Act in progress.
type localAct struct {
	driver.ActRequest
	queue *Queue
	done  driver.Acted
	at    *localEntry // the last entry that was examined
	// ended are the jobs that Act has ended and canceled are the runs that it has
	// canceled, since the last call of publish.
	ended    []*localEntry
	endedAt  time.Time
	canceled []*localRun
	// broken are the errors of the methods of jobs since then, by job ID.
	broken map[string]error
}

// actStride acts on jobs until the limit of the request is reached, or it has examined
// localStride jobs under the lock. It reports whether more jobs may follow. It passes over a job whose methods are
// broken.
func (a localAdmin) actStride(w *localWalk, act *localAct) (more bool) {
	a.mu.Lock()
	if act.DryRun {
		defer a.mu.Unlock()
	} else {
		defer a.unlock()
	}
	w.find(a.Queue)
	err := contain.Alone(func() error { // a job must not end this goroutine, which has the lock
		more = act.examine(w)
		return nil
	})
	if err != nil {
		act.foundBroken(act.at, err)
		return !act.isFull()
	}
	return more
}

// examine is actStride without the lock.
func (act *localAct) examine(w *localWalk) (more bool) {
	for range localStride {
		e := w.following(act.queue)
		if e == nil {
			return false
		}
		act.at, w.At = e, e.Job.number
		if !w.mayMatch(act.queue, e) {
			continue
		}
		if v := act.queue.view(e); !w.matches(&v) {
			continue
		}
		act.apply(e)
		if act.isFull() {
			return false
		}
	}
	return true
}

// isFull reports whether the limit of the request is reached.
func (act *localAct) isFull() bool { return act.done.Done+act.done.Skipped >= act.Limit }

func (act *localAct) foundBroken(e *localEntry, err error) {
	if act.broken == nil {
		act.broken = map[string]error{}
	}
	act.broken[e.ID] = err
}

// apply applies the action to an entry if its state allows it. apply and the functions below
// are called with the lock of the queue, unless they say otherwise.
func (act *localAct) apply(e *localEntry) {
	now := act.queue.now()
	switch {
	case !act.queue.schedule.Allows(e, act.Action.Kind, now),
		act.Action.Kind == driver.Edit && (act.Action.Edit.Body != nil || act.Action.IsStale(e.Job.job.Status().ModificationCount)),
		act.Action.Kind == driver.Restart && !e.Job.run.Load().isOver():
		act.done.Skipped++
	case act.DryRun:
		act.done.Done++
	default:
		act.done.Done++
		act.perform(e, now)
	}
}

// perform performs the action on an entry whose state allows it.
func (act *localAct) perform(e *localEntry, now time.Time) {
	q := act.queue
	switch act.Action.Kind {
	case driver.Cancel:
		act.cancel(e, now)
	case driver.RunNow:
		at := e.WaitUntil
		if at.After(now) {
			at = now
		}
		q.reschedule(e, at, now)
	case driver.Reschedule:
		q.reschedule(e, act.Action.At, now)
	case driver.Prioritize:
		q.prioritize(e, act.Action.Priority)
	case driver.Park:
		q.park(e, act.Action.Reason)
	case driver.Unpark:
		delete(q.parked, e)
		q.schedule.Unpark(e, now)
	case driver.Restart:
		q.restart(e, act.Action, now)
	case driver.Delete:
		q.schedule.Remove(e)
	case driver.Edit:
		if priority := act.Action.Edit.Priority; priority != nil {
			q.prioritize(e, *priority)
		}
		if at := act.Action.Edit.WaitUntil; at != nil {
			q.reschedule(e, *at, now)
		}
	}
}

// publish cancels the contexts of canceled runs, publishes the ends of jobs, and logs errors. It is
// called without the lock.
func (act *localAct) publish() {
	for _, run := range act.canceled {
		run.cancel(amboy.ErrAborted)
	}
	for _, e := range act.ended {
		err := contain.Alone(func() error {
			act.queue.publishEnd(e.Job.job, act.endedAt)
			return nil
		})
		if err != nil {
			act.foundBroken(e, err)
		}
	}
	for id, err := range act.broken {
		act.queue.logBroken("methods of a job failed in an action on it", id, err)
	}
	act.canceled, act.ended, act.broken = nil, nil, nil
}

// cancel ends an entry, or requests the cancellation of its run.
func (act *localAct) cancel(e *localEntry, now time.Time) {
	q, reason := act.queue, act.Action.Reason
	if e.Place() != schedule.Running {
		if err := q.endCanceled(e, reason, now); err != nil {
			act.foundBroken(e, err)
			return
		}
		act.ended, act.endedAt = append(act.ended, e), now
		return
	}
	if q.cancels == nil {
		q.cancels = map[*localEntry]string{}
	}
	q.cancels[e] = reason
	q.canceling.Store(int64(len(q.cancels)))
	if run := e.Job.run.Load(); run != nil {
		act.canceled = append(act.canceled, run)
	}
}

// endCanceled ends an entry that does not run. The caller publishes its end. If the methods of the job are broken, it
// ends all the same, and the caller logs the error.
func (q *Queue) endCanceled(e *localEntry, reason string, now time.Time) (broken error) {
	broken = contain.Alone(func() error { // the job must not end this goroutine, which has the lock
		j := e.Job.job
		status := j.Status()
		status.InProgress, status.Completed = false, true
		status.Outcome, status.Reason = amboy.OutcomeCanceled, reason
		j.SetStatus(status)
		j.UpdateTimeInfo(amboy.JobTimeInfo{End: now})
		jobstate.DoNotRetry(j)
		return nil
	})
	q.finished(e, false, now)
	return broken
}

// cancelReason reports whether the cancellation of a running entry was requested, and
// why. It takes the lock only if any cancellation is requested.
func (q *Queue) cancelReason(e *localEntry) (reason string, canceled bool) {
	if q.canceling.Load() == 0 {
		return "", false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	reason, canceled = q.cancels[e]
	return reason, canceled
}

// markCanceledFor is MarkCanceled, with a reason.
func markCanceledFor(j amboy.Job, reason string) {
	jobstate.MarkCanceled(j)
	status := j.Status()
	if status.Outcome == amboy.OutcomeCanceled {
		status.Reason = reason
		j.SetStatus(status)
	}
}

func (q *Queue) reschedule(e *localEntry, at, now time.Time) {
	times := e.Job.job.TimeInfo()
	times.WaitUntil = at
	e.Job.job.SetTimeInfo(times)
	q.schedule.Reschedule(e, at, now)
}

// prioritize changes the priority of an entry. It does not touch a job that runs; the
// schedule uses its own copy of the priority.
func (q *Queue) prioritize(e *localEntry, priority int) {
	if p, ok := e.Job.job.(amboy.Prioritized); ok && e.Place() != schedule.Running {
		p.SetPriority(priority)
	}
	q.schedule.Prioritize(e, priority)
}

func (q *Queue) park(e *localEntry, reason string) {
	if q.parked == nil {
		q.parked = map[*localEntry]string{}
	}
	q.parked[e] = reason
	q.schedule.Park(e)
}

// restart resets a finished job to the state in which it was put, except for its attempt
// errors and its modification count.
func (q *Queue) restart(e *localEntry, a driver.Action, now time.Time) {
	j := e.Job.job
	status := j.Status()
	j.SetStatus(amboy.JobStatusInfo{
		ModificationTime:  status.ModificationTime,
		ModificationCount: status.ModificationCount,
		Attempts:          status.Attempts,
		DroppedErrors:     status.DroppedErrors,
	})
	times := j.TimeInfo()
	times.Start, times.End, times.DispatchBy = time.Time{}, time.Time{}, time.Time{}
	if !a.At.IsZero() {
		times.WaitUntil, e.WaitUntil, e.Since = a.At, a.At, time.Time{}
	}
	j.SetTimeInfo(times)
	jobstate.DoNotRetry(j)
	jobstate.ForgetSnooze(j)
	if p, ok := j.(amboy.ProgressJob); ok && p.Progress() != nil {
		p.SetProgress(amboy.JobProgress{})
	}
	e.Backoff = 0
	e.Job.ending.Store(false)
	var edges []string
	if !a.IgnoreEdges {
		edges = e.Job.edges()
	}
	q.schedule.Restart(e, edges, now)
	q.jobArrived()
}
