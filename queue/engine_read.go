package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

func (q *engine) Get(ctx context.Context, id string) (amboy.Job, bool) {
	r, err := q.driver.Get(ctx, id)
	if err != nil {
		if !amboy.IsJobNotFoundError(err) {
			logging.Error(ctx, q.failure("could not get a job", id, err))
		}
		return nil, false
	}
	j := q.resolve(ctx, r)
	return j, j != nil
}

// resolve makes a job of a record for somebody who wants to look at it; nil
// where it can't be read.
func (q *engine) resolve(ctx context.Context, r *driver.Record) amboy.Job {
	j, err := r.Resolve(q.format)
	if err != nil {
		logging.Warning(ctx, q.failure("a stored job can't be read", r.JobID(), err))
		return nil
	}
	return j
}

func (q *engine) GetAttempt(ctx context.Context, id string, attempt int) (amboy.Job, error) {
	attempts, err := q.GetAllAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, j := range attempts {
		if j.RetryInfo().CurrentAttempt == attempt {
			return j, nil
		}
	}
	return nil, amboy.NewJobNotFoundErrorf("queue %q has no attempt %d of job %q", q.id, attempt, id)
}

func (q *engine) GetAllAttempts(ctx context.Context, id string) ([]amboy.Job, error) {
	records, err := q.driver.Attempts(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	if len(records) == 0 {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no retryable job %q", q.id, id)
	}
	attempts := make([]amboy.Job, len(records))
	for i, r := range records {
		attempts[i], err = r.Resolve(q.format)
		if err != nil {
			return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
		}
	}
	return attempts, nil
}

func (q *engine) Results(ctx context.Context) <-chan amboy.Job {
	records := q.list(ctx)
	latest := map[string]int{}
	for _, r := range records {
		latest[r.JobID()] = max(latest[r.JobID()], r.RetryInfo.CurrentAttempt)
	}
	var jobs []amboy.Job
	for _, r := range records {
		replaced := r.RetryInfo.CurrentAttempt < latest[r.JobID()]
		if replaced || !r.Status.Completed || r.RetryInfo.ShouldRetry() {
			continue
		}
		if j := q.resolve(ctx, r); j != nil {
			jobs = append(jobs, j)
		}
	}
	return stream(ctx, &q.lifecycle, jobs, func(j amboy.Job) amboy.Job { return j })
}

func (q *engine) JobInfo(ctx context.Context) <-chan amboy.JobInfo {
	return stream(ctx, &q.lifecycle, q.list(ctx), func(r *driver.Record) amboy.JobInfo {
		info := amboy.JobInfo{
			ID:       r.JobID(),
			Type:     amboy.JobType{Name: r.Type, Version: r.Version},
			Status:   r.Status,
			Time:     r.TimeInfo,
			Retry:    r.RetryInfo,
			Priority: r.Priority,
		}
		info.State = amboy.StateOf(info, time.Now())
		return info
	})
}

func (q *engine) list(ctx context.Context, states ...amboy.JobState) []*driver.Record {
	records, err := q.driver.List(ctx, states...)
	if err != nil {
		logging.Error(ctx, q.failure("could not list jobs", "", err))
	}
	return records
}

func (q *engine) Stats(ctx context.Context) amboy.QueueStats {
	stats, err := q.driver.Stats(ctx)
	if err != nil {
		logging.Error(ctx, q.failure("could not count jobs", "", err))
		stats.Err = err
	}
	return stats
}
