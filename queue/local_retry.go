package queue

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// retry makes a job run again that asks for another attempt. The next attempt is the same
// job value. retry returns false if the job ends instead, because it never ran or can't
// have another attempt.
func (q *local) retry(e *localEntry) bool {
	j := e.Job.job
	if !q.isRunning(e) {
		doNotRetry(j)
		return false
	}
	if reason, canceled := q.cancelReason(e); canceled {
		markCanceledFor(j, reason)
		return false
	}
	now := q.now()
	next, err := nextTimes(j, q.opts.RetryPolicy, now)
	if err == nil && j.RetryInfo().GetRemainingAttempts() == 0 {
		err = errAttemptLimit
	}
	if err != nil {
		addRetryError(j, 1, err, now)
		doNotRetry(j)
		return false
	}
	markComplete(j, now)
	q.publish(amboy.EventRetrying, j, now)
	q.count(activity.Retried, j, now)
	markRetried(j, next)

	q.mu.Lock()
	e.Job.ending.Store(false)
	e.Since = now
	q.schedule.Repeat(e, next.WaitUntil, next.DispatchBy, now)
	q.arrivals.Remove(e.Job.number)
	q.arrive(e)
	q.requeued(e, now)
	return true
}

func (q *local) isRunning(e *localEntry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.Place() == schedule.Running
}

// publishEnd publishes how a job ended.
func (q *local) publishEnd(j amboy.Job, now time.Time) {
	if q.events.Subscribed() {
		q.send(amboy.EventKind(amboy.StateOf(amboy.NewJobInfo(j), now)), j, now)
	}
}
