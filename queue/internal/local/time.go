package local

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// setTimer schedules the call of advance for the next time in the schedule.
func (q *Queue) setTimer() {
	if at, ok := q.schedule.NextTime(); ok {
		q.timer.Set(at)
	}
}

// advance makes jobs ready whose time has come, and ends jobs that have expired.
func (q *Queue) advance() {
	q.mu.Lock()
	expired := q.schedule.Advance(q.now())
	q.unlock()
	for _, e := range expired {
		// If the job ends the goroutine, the others end all the same.
		_ = contain.Alone(func() error {
			q.expire(e)
			return nil
		})
	}
}

// shortenWaits shortens the backoffs and snoozes that were set before the clock was set
// back, so that they do not last longer than intended.
func (q *Queue) shortenWaits() {
	q.mu.Lock()
	shortened := q.schedule.ShortenWaits(q.now())
	if len(shortened) == 0 {
		q.mu.Unlock()
		return
	}
	q.unlock()
	for _, s := range shortened {
		if !s.Scheduled {
			continue // this wait is not part of the job's times
		}
		err := contain.Panic(func() error {
			times := s.Entry.Job.job.TimeInfo()
			s.Entry.Job.job.UpdateTimeInfo(amboy.JobTimeInfo{ // Only these: it may run by now and change its other times.
				WaitUntil:  earlier(times.WaitUntil, s.By),
				DispatchBy: earlier(times.DispatchBy, s.By),
			})
			return nil
		})
		if err != nil {
			q.logBroken("could not change the times of a job after the clock was set back", s.Entry.ID, err)
		}
	}
}

func earlier(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-by)
}

// expire ends a job that did not start before its DispatchBy.
func (q *Queue) expire(e *localEntry) {
	err := contain.Broken(func() error {
		jobstate.MarkExpired(e.Job.job)
		return nil
	}, func(broken error) error {
		q.endPanicked(e, broken)
		return broken
	})
	if err == nil {
		q.finish(e)
	}
}
