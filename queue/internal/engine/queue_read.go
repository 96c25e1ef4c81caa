package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/registry"
)

// Get implements amboy.Queue.
func (q *Queue) Get(ctx context.Context, id string) (amboy.Job, bool) {
	r, err := q.Driver.Get(ctx, q.Name, id)
	if err != nil {
		if !amboy.IsJobNotFoundError(err) {
			logging.Error(ctx, q.failure("could not get a job", id, err))
		}
		return nil, false
	}
	j := q.resolve(ctx, r)
	return j, j != nil
}

// Load is Get with an error, for package load.
func (q *Queue) Load(ctx context.Context, id string) (amboy.Job, error) {
	r, err := q.Driver.Get(ctx, q.Name, id)
	if err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	return q.Form.Resolve(r)
}

// resolve decodes the job of a record for a reader. It returns nil if the record can't be
// decoded.
func (q *Queue) resolve(ctx context.Context, r *driver.Record) amboy.Job {
	j, err := q.Form.Resolve(r)
	if err != nil {
		logging.Warning(ctx, q.failure("could not decode a stored job", r.JobID(), err))
		return nil
	}
	return j
}

// GetAttempt implements amboy.RetryableQueue.
func (q *Queue) GetAttempt(ctx context.Context, id string, attempt int) (amboy.Job, error) {
	attempts, err := q.GetAllAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, j := range attempts {
		if j.RetryInfo().CurrentAttempt == attempt {
			return j, nil
		}
	}
	return nil, amboy.NewJobNotFoundErrorf("queue %q has no attempt %d of job %q", q.ID(), attempt, id)
}

// GetAllAttempts implements amboy.RetryableQueue.
func (q *Queue) GetAllAttempts(ctx context.Context, id string) ([]amboy.Job, error) {
	records, err := q.Driver.Attempts(ctx, q.Name, id)
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	if len(records) == 0 {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no retryable job %q", q.ID(), id)
	}
	attempts := make([]amboy.Job, len(records))
	for i, r := range records {
		attempts[i], err = q.Form.Resolve(r)
		if err != nil {
			return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
		}
	}
	return attempts, nil
}

// listPage is the number of records per page.
const listPage = 500

// Results yields the jobs that have ended for good. It reads the store page by page.
func (q *Queue) Results(ctx context.Context) <-chan amboy.Job {
	ended := driver.Query{
		Queues: []string{q.Name},
		States: []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired},
		Latest: true,
	}
	return streamRecords(ctx, q, ended, func(r *driver.Record) (amboy.Job, bool) {
		if !r.Status.Completed {
			return nil, false // expired, but not ended yet
		}
		j := q.resolve(ctx, r)
		return j, j != nil
	})
}

// JobInfo yields what is stored about each attempt of each job. It reads the store page
// by page.
func (q *Queue) JobInfo(ctx context.Context) <-chan amboy.JobInfo {
	return streamRecords(ctx, q, driver.Query{Queues: []string{q.Name}}, func(r *driver.Record) (amboy.JobInfo, bool) {
		return infoOf(r, q.Engine.Now()), true
	})
}

// infoOf describes the job of a record, with its state at now.
func infoOf(r *driver.Record, now time.Time) amboy.JobInfo {
	info := amboy.JobInfo{
		ID:       r.JobID(),
		Type:     amboy.JobType{Name: r.Type, Version: r.Version},
		Status:   r.Status,
		Time:     r.TimeInfo,
		Retry:    r.RetryInfo,
		Priority: r.Priority,
		Progress: r.Progress,
		Tags:     r.Tags,
	}
	info.State = amboy.StateOf(info, now)
	info.Explain(func() bool { return registry.HasFunction(r.Type) })
	return info
}

// streamRecords sends the converted records that a query selects. It reads the first page
// before it returns, so that a small queue needs no goroutine.
func streamRecords[T any](ctx context.Context, q *Queue, query driver.Query, convert func(*driver.Record) (T, bool)) <-chan T {
	request := driver.PageRequest{Limit: listPage}
	read := func() (page driver.Page) {
		err := contain.Panic(func() (err error) {
			page, err = q.Driver.Find(ctx, query, request)
			return err
		})
		if err != nil {
			logging.Error(ctx, q.failure("could not list jobs", "", err))
		}
		return page
	}
	page := read()
	length := lifecycle.UnknownLength
	if page.Next == "" {
		length = len(page.Records)
	}
	return lifecycle.Stream(ctx, &q.Base, length, func(yield func(T) bool) {
		for {
			for _, r := range page.Records {
				if item, ok := convert(r); ok && !yield(item) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			request.After = page.Next
			page = read()
		}
	})
}

// Stats implements amboy.Queue.
func (q *Queue) Stats(ctx context.Context) amboy.QueueStats {
	stats, err := q.Driver.Stats(ctx, q.Name)
	if err != nil {
		logging.Error(ctx, q.failure("could not count jobs", "", err))
		stats.Err = err
	}
	return stats
}

// ResolveSafely decodes a job. A panic of its own code is returned as an error.
func (q *Queue) ResolveSafely(r *driver.Record) (j amboy.Job, err error) {
	err = contain.Panic(func() (err error) {
		j, err = q.Form.Resolve(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decoding the job: %w", err)
	}
	return j, nil
}
