package local

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// backlogPeriod is the time between two samples.
const backlogPeriod = time.Minute

// backlogSampler stores, once a minute, how many jobs wait and for how long, in notes in this
// process. While the queue has no jobs it does nothing.
type backlogSampler struct {
	timer lifecycle.WakeTimer
	// busy is true while a sample is scheduled or taken.
	busy atomic.Bool
}

// jobArrived schedules samples for a queue that had no jobs.
func (q *Queue) jobArrived() {
	if s := &q.backlog; !s.busy.Load() && s.busy.CompareAndSwap(false, true) {
		q.scheduleBacklog()
	}
}

// scheduleBacklog schedules the next sample. The timer calls it too, because the clock may have been
// set back since.
func (q *Queue) scheduleBacklog() {
	q.backlog.timer.Set(q.now().Truncate(backlogPeriod).Add(backlogPeriod))
}

// sampleBacklog takes the scheduled sample. It schedules the next one unless all jobs have ended.
func (q *Queue) sampleBacklog() {
	left, err := activity.SampleBacklog(q.Open, q.Admin(), q.now())
	switch {
	case err != nil && q.Open.Err() != nil:
		return
	case err != nil:
		logging.Error(q.Open, message.Fields{"message": "could not record how many jobs wait", "queue": q.ID(), "error": err.Error()})
	case left == activity.Backlog{}:
		q.backlog.busy.Store(false)
		if q.Stats(context.Background()).IsIdle() {
			return
		}
		q.backlog.busy.Store(true) // a job has arrived since
	}
	q.scheduleBacklog()
}
