package local

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Get implements amboy.Queue.
func (q *Queue) Get(_ context.Context, id string) (amboy.Job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, false
	}
	return e.Job.job, true
}

// Save writes nothing, because the queue holds the job itself. It returns an error for a
// job that is not in the queue, and for a stale copy of a job.
func (q *Queue) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.ID())
	}
	held, ok := q.Get(ctx, j.ID())
	if !ok {
		return amboy.NewJobNotFoundErrorf("saving job %q: not found in queue %q", j.ID(), q.ID())
	}
	if reflect.TypeOf(j).Comparable() && held == j {
		return nil
	}
	if _, err := driver.CheckSave(&driver.Record{Status: held.Status()}, &driver.Record{Status: j.Status()}); err != nil {
		return fmt.Errorf("saving job %q in queue %q: %w", j.ID(), q.ID(), err)
	}
	return nil
}

// Stats implements amboy.Queue.
func (q *Queue) Stats(context.Context) amboy.QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.Stats()
}

// Results implements amboy.Queue.
func (q *Queue) Results(ctx context.Context) <-chan amboy.Job {
	q.mu.Lock()
	var jobs []amboy.Job
	for e := range q.schedule.Finished {
		jobs = append(jobs, e.Job.job)
	}
	q.mu.Unlock()
	return lifecycle.Stream(ctx, &q.Base, len(jobs), slices.Values(jobs))
}

// JobInfo implements amboy.Queue.
func (q *Queue) JobInfo(ctx context.Context) <-chan amboy.JobInfo {
	jobs := q.snapshots(amboy.JobQuery{})
	return lifecycle.Stream(ctx, &q.Base, len(jobs), func(yield func(amboy.JobInfo) bool) {
		for _, s := range jobs {
			info, err := q.infoOf(s)
			if err != nil {
				q.logBroken("could not list a job", s.id, err)
				continue
			}
			if !yield(info) {
				return
			}
		}
	})
}

// infoOf describes a job. A panic of the job's methods is returned as an error: lists have other jobs, too, and the
// goroutine of a long list has no caller.
func (q *Queue) infoOf(s jobSnapshot) (info amboy.JobInfo, err error) {
	err = contain.Panic(func() error {
		info = s.info(q.now())
		return nil
	})
	if err != nil {
		return info, fmt.Errorf("describing job %q: %w", s.id, err)
	}
	return info, nil
}

// WaitComplete waits until nothing is pending, running or retrying.
func (q *Queue) WaitComplete(ctx context.Context) bool {
	q.mu.Lock()
	done := q.complete.UntilIdle(q.schedule.Idle())
	q.mu.Unlock()
	return q.WaitFor(ctx, done)
}

// WaitJobComplete waits until a job has ended.
func (q *Queue) WaitJobComplete(ctx context.Context, id string) bool {
	q.mu.Lock()
	e, ok := q.schedule.Get(id)
	if !ok || e.Place() == schedule.Finished {
		q.mu.Unlock()
		return ok
	}
	ended, leave := q.complete.UntilEnded(id)
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		leave()
		q.mu.Unlock()
	}()
	return q.WaitFor(ctx, ended)
}
