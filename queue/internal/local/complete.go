package local

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Complete ends a job. A job that has not started never will. If the job still runs, its
// context ends.
func (q *Queue) Complete(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.ID())
	}
	e, err := q.unended(j)
	if err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	if reason, canceled := q.cancelReason(e); canceled {
		markCanceledFor(e.Job.job, reason)
	}
	if !e.Job.ending.CompareAndSwap(false, true) {
		return fmt.Errorf("completing job %q: attempt has already ended: %w", j.ID(), amboy.ErrLeaseLost)
	}
	run := e.Job.run.Load() // read it before another attempt can begin
	if run.isOver() {
		e.Job.run.CompareAndSwap(run, nil) // free it: the queue keeps the finished entry
		run = nil
	}
	q.endOnce(e)
	if run != nil {
		run.cancel(amboy.ErrLeaseLost)
	}
	return nil
}

// unended returns the entry of a job that has not ended. It takes the lock only if
// q.taken does not contain the job.
func (q *Queue) unended(j amboy.Job) (*localEntry, error) {
	id := j.ID()
	if e := q.taken.get(id); e != nil {
		return e, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.find(id, j)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("not found in queue %q", q.ID())
	}
	if e.Place() == schedule.Finished {
		return nil, fmt.Errorf("already ended: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// find returns the entry of a job: the entry with its ID or, because its run may have changed that, the
// running entry of that job value. The caller holds the lock.
func (q *Queue) find(id string, j amboy.Job) (e *localEntry, ok bool) {
	if e, ok = q.schedule.Get(id); ok {
		return e, true
	}
	return q.runningAs(j)
}

// runningAs returns the running entry of a job value, without calling the job. The caller holds the
// lock.
func (q *Queue) runningAs(j amboy.Job) (e *localEntry, ok bool) {
	if reflect.TypeOf(j).Kind() != reflect.Pointer {
		return nil, false // it may not be comparable
	}
	for e := range q.schedule.All {
		if e.Place() == schedule.Running && e.Job.job == j {
			return e, true
		}
	}
	return nil, false
}

var _ amboy.BrokenJobEnder = (*Queue)(nil)

// EndBroken implements amboy.BrokenJobEnder. It calls methods of the job, which may panic, to record
// the error.
func (q *Queue) EndBroken(_ context.Context, j amboy.Job, broken error) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("ending a broken job of queue %q: the job must not be nil", q.ID())
	}
	q.mu.Lock()
	e, ok := q.runningAs(j)
	q.mu.Unlock()
	if !ok {
		return fmt.Errorf("ending a broken job of queue %q: it does not run here: %w", q.ID(), amboy.ErrLeaseLost)
	}
	q.endPanicked(e, broken)
	return nil
}

// finish ends an attempt of a job, and also the job, unless another attempt follows. It
// does nothing if another call ends the attempt.
func (q *Queue) finish(e *localEntry) {
	if e.Job.ending.CompareAndSwap(false, true) {
		q.endOnce(e)
	}
}

// endOnce ends the attempt. Only the call that has set e.Job.ending calls it.
func (q *Queue) endOnce(e *localEntry) {
	_ = contain.Broken(func() error {
		q.endAttempt(e)
		return nil
	}, func(broken error) error {
		q.endPanicked(e, broken)
		return nil
	})
}

func (q *Queue) endAttempt(e *localEntry) {
	j := e.Job.job
	if j.RetryInfo().ShouldRetry() && q.retry(e) {
		return
	}
	now := q.now()
	succeeded := jobstate.MarkComplete(j, now)
	q.countEnd(succeeded, j, now)
	q.mu.Lock()
	q.finished(e, succeeded, now)
	q.unlock()
	q.publishEnd(j, now)
}

// finished removes the bookkeeping of an entry that ended, and wakes its waiters. The
// caller holds the lock.
func (q *Queue) finished(e *localEntry, succeeded bool, now time.Time) {
	delete(q.parked, e)
	if len(q.cancels) > 0 {
		delete(q.cancels, e)
		q.canceling.Store(int64(len(q.cancels)))
	}
	q.taken.remove(e)
	q.schedule.Finish(e, succeeded, now)
	q.complete.Ended(e.ID, q.schedule.Idle())
}
