package local

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// lockEnds returns when the lock of a job that is in progress becomes stale.
func lockEnds(status *amboy.JobStatusInfo) time.Time {
	return status.ModificationTime.Add(amboy.LockTimeout)
}

// addPreset adds a job that was put as completed, which has ended for good, or as in
// progress, which another owner runs. The caller holds the lock.
func (q *Queue) addPreset(e *localEntry, now time.Time) error {
	j := e.Job.job
	status := j.Status()
	place, succeeded := schedule.Running, false
	if status.Completed {
		place, succeeded = schedule.Finished, status.ErrorCount == 0 && status.Outcome == ""
	}
	if err := q.schedule.AddAt(place, e, succeeded, now); err != nil {
		return err
	}
	jobstate.MarkPut(j, now)
	if status.Completed {
		jobstate.DoNotRetry(j)
		return nil
	}
	if q.foreign == nil {
		q.foreign = map[*localEntry]struct{}{}
	}
	q.foreign[e] = struct{}{}
	q.locks.Set(lockEnds(&status))
	return nil
}

// recoverForeign makes jobs ready that were put as in progress, and whose locks have
// become stale.
func (q *Queue) recoverForeign() {
	now := q.now()
	var ended []*localEntry
	panicked := map[*localEntry]error{}
	q.mu.Lock()
	for e := range q.foreign {
		err := contain.Alone(func() error { // the job must not end this goroutine, which has the lock
			isEnded, err := q.recoverIfStale(e, now)
			if isEnded {
				ended = append(ended, e)
			}
			return err
		})
		if err != nil {
			delete(q.foreign, e)
			panicked[e] = err
		}
	}
	q.unlock()
	for e, err := range panicked {
		q.endPanicked(e, err)
	}
	for _, e := range ended {
		q.publishEnd(e.Job.job, now)
	}
}

// recoverIfStale makes an entry of q.foreign ready if its lock has become stale. If a cancel
// was requested meanwhile, it ends the entry instead. The caller holds the lock of the queue.
func (q *Queue) recoverIfStale(e *localEntry, now time.Time) (ended bool, err error) {
	if e.Place() != schedule.Running || e.Job.run.Load() != nil {
		delete(q.foreign, e)
		return false, nil
	}
	status := e.Job.job.Status()
	if ends := lockEnds(&status); now.Before(ends) {
		q.locks.Set(ends)
		return false, nil
	}
	delete(q.foreign, e)
	if reason, canceled := q.cancels[e]; canceled {
		err = q.endCanceled(e, reason, now)
		return err == nil, err
	}
	jobstate.ForgetRun(e.Job.job)
	q.schedule.Release(e, time.Time{}, now)
	return false, nil
}
