package local

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// retry makes a job run again that asks for another attempt. The next attempt is the same
// job value. retry returns false if the job ends instead, because it never ran or can't
// have another attempt.
func (q *Queue) retry(e *localEntry) bool {
	j := e.Job.job
	if !q.isRunning(e) {
		jobstate.DoNotRetry(j)
		return false
	}
	if reason, canceled := q.cancelReason(e); canceled {
		markCanceledFor(j, reason)
		return false
	}
	now := q.now()
	next, err := jobstate.NextTimes(j, q.opts.RetryPolicy, now)
	if err == nil && j.RetryInfo().GetRemainingAttempts() == 0 {
		err = jobstate.ErrAttemptLimit
	}
	if err != nil {
		jobstate.AddRetryError(j, 1, err, now)
		jobstate.DoNotRetry(j)
		return false
	}
	jobstate.MarkComplete(j, now)
	q.Publish(amboy.EventRetrying, j, now)
	q.count(activity.Retried, j, now)
	jobstate.MarkRetried(j, next)

	q.mu.Lock()
	e.Job.ending.Store(false)
	e.Since = now
	q.schedule.Repeat(e, next.WaitUntil, next.DispatchBy, now)
	q.arrivals.Remove(e.Job.number)
	q.arrive(e)
	q.requeued(e, now)
	return true
}

func (q *Queue) isRunning(e *localEntry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.Place() == schedule.Running
}

// publishEnd publishes how a job ended.
func (q *Queue) publishEnd(j amboy.Job, now time.Time) {
	if q.Events.Subscribed() {
		q.Send(amboy.EventKind(amboy.StateOf(amboy.NewJobInfo(j), now)), j, now)
	}
}
