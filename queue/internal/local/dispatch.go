package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// wakeWorker returns the worker to wake, or nil if no job may start or a woken worker has
// not tried to take a job yet. Each worker that takes a job wakes the next, so a burst of
// Puts costs one wake-up instead of one per job.
func (q *Queue) wakeWorker() *wait.Waiter {
	if q.waking || !q.mayStart() {
		return nil
	}
	w := q.workers.TakeLast()
	q.waking = w != nil
	return w
}

// Next implements amboy.Queue.
func (q *Queue) Next(ctx context.Context) amboy.Job {
	for {
		e, failed := q.take(ctx)
		if e == nil {
			return nil
		}
		runs := false
		err := contain.Broken(func() error {
			runs = q.mayRun(e, failed)
			if runs {
				now := q.now()
				jobstate.MarkRunning(e.Job.job, q.ID(), now)
				q.Publish(amboy.EventStarted, e.Job.job, now)
			}
			return nil
		}, func(broken error) error {
			q.endPanicked(e, broken)
			return broken
		})
		if err == nil && runs {
			q.changes.Notify(driver.Change{})
			return e.Job.job
		}
	}
}

// endPanicked ends an entry that was taken or is to be completed, after a method of its job other than Run has panicked
// or ended the goroutine.
func (q *Queue) endPanicked(e *localEntry, panicked error) {
	j, now := e.Job.job, q.now()
	var err error
	defer func() { // even if the job ends this goroutine
		q.logBroken("job failed, because its own methods did", e.ID, errors.Join(panicked, err))
		q.mu.Lock()
		if e.Place() != schedule.Finished {
			q.finished(e, false, now)
		}
		q.unlock()
	}()
	err = contain.Panic(func() error {
		j.AddError(panicked)
		jobstate.DoNotRetry(j)
		jobstate.MarkComplete(j, now)
		return nil
	})
}

// logBroken logs an error of the methods of a job other than Run.
func (q *Queue) logBroken(what, id string, err error) {
	logging.Error(q.Open, message.Fields{"message": what, "queue": q.ID(), "job_id": id, "error": err.Error()})
}

// take waits for an entry to run, and returns it with its failed edges. It returns nil
// when ctx or the queue ends.
func (q *Queue) take(ctx context.Context) (e *localEntry, failed []string) {
	q.mu.Lock()
	for ctx.Err() == nil && !q.IsStopped() {
		if e = q.startNext(); e != nil {
			e.Job.run.Store(nil)
			q.taken.add(e)
			failed = e.Failed()
			worker, putter := q.wakeWorker(), q.wakePutter()
			q.mu.Unlock()
			worker.Wake()
			putter.Wake()
			return e, failed
		}
		w := q.workers.Join()
		q.mu.Unlock()
		if q.await(ctx, &q.workers, w) != nil {
			return nil, nil
		}
		q.mu.Lock()
		q.workers.Reuse(w)
		q.waking = false
	}
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
	return nil, nil
}

// mayRun reports whether a job that was taken may run, by its deadline and its
// dependency. If not, mayRun ends or postpones the job.
func (q *Queue) mayRun(e *localEntry, failed []string) bool {
	if deadline := e.DispatchBy; !deadline.IsZero() && deadline.Before(q.now()) {
		q.expire(e)
		return false
	}
	m := e.Job.job.Dependency()
	if jobstate.IsReady(m, failed) {
		return true
	}
	state, reason := jobstate.Consult(m, failed)
	if running, err := q.running(e.ID, e.Job.job); err != nil || running != e {
		return false // completed meanwhile
	}
	switch state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		q.postpone(e)
	case dependency.Unresolved:
		e.Job.job.AddError(reason)
		logging.Warning(q.Open, message.Fields{
			"message":  "job failed without running",
			"queue":    q.ID(),
			"job_id":   e.ID,
			"job_type": e.Type.Value(),
			"error":    reason.Error(),
		})
		q.finish(e)
	case dependency.Passed:
		q.finish(e)
	}
	return false
}

func (q *Queue) postpone(e *localEntry) {
	now := q.now()
	q.mu.Lock()
	e.Backoff = jobstate.NextRecheck(e.Backoff)
	q.schedule.ReleaseSince(e, now, now.Add(e.Backoff), now)
	q.requeued(e, now)
}

// requeued is called with the lock, and releases it, when an entry has run and was put back
// to run again. If a cancel was requested meanwhile, requeued ends the entry.
func (q *Queue) requeued(e *localEntry, now time.Time) {
	q.taken.remove(e)
	reason, canceled := q.cancels[e]
	var broken error
	if canceled {
		broken = q.endCanceled(e, reason, now)
	}
	q.unlock()
	switch {
	case broken != nil:
		q.logBroken("job was canceled, although its own methods failed", e.ID, broken)
	case canceled:
		q.publishEnd(e.Job.job, now)
	}
}

// unlock releases the lock after a change, and wakes a worker and a Put that can proceed.
func (q *Queue) unlock() {
	q.setTimer()
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	q.changes.Notify(driver.Anywhere)
}

// Release implements amboy.JobReleaser: it takes back a job whose run was interrupted.
func (q *Queue) Release(ctx context.Context, j amboy.Job) error {
	if err := q.release(ctx, j, time.Time{}, amboy.EventHandedBack); err != nil {
		return fmt.Errorf("releasing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// Snooze implements amboy.JobSnoozer: it takes back a job that is to run again later.
func (q *Queue) Snooze(ctx context.Context, j amboy.Job, until time.Time) error {
	until = jobstate.NotTooSoon(until, q.now())
	if err := q.release(ctx, j, until, amboy.EventSnoozed); err != nil {
		return fmt.Errorf("snoozing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// release takes a job back. It completes the job if a cancel was requested.
func (q *Queue) release(ctx context.Context, j amboy.Job, until time.Time, kind amboy.EventKind) error {
	if amboy.IsNilJob(j) {
		return errors.New("the job must not be nil")
	}
	e, err := q.running(j.ID(), j)
	if err != nil {
		return fmt.Errorf("job %q: %w", j.ID(), err)
	}
	if _, canceled := q.cancelReason(e); canceled {
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
		return q.Complete(ctx, j)
	}
	now := q.now()
	q.Publish(kind, j, now)
	jobstate.ForgetRun(j)
	times := j.TimeInfo()
	times.DispatchBy = time.Time{} // the job met it when that run started
	j.SetTimeInfo(times)
	q.mu.Lock()
	e.Backoff = 0
	q.schedule.NeverExpire(e)
	q.schedule.ReleaseSince(e, now, until, now)
	q.requeued(e, now)
	return nil
}

// running returns the entry of a running job.
func (q *Queue) running(id string, j amboy.Job) (*localEntry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.find(id, j)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", q.ID(), id)
	}
	if e.Place() != schedule.Running {
		return nil, fmt.Errorf("not running: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}
