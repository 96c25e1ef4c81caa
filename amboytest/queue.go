// Package amboytest helps to test jobs and the code that puts them. It provides a queue
// whose jobs run when the test says so, on the test's goroutine and at times that the test
// chooses, and assertions about what was put.
package amboytest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// Queue is a queue for one test. It does nothing by itself: a job runs on the goroutine
// that calls RunNext, RunAll or RunUntil, or that waits for the job with amboy.Wait or
// amboy.WaitJob, and time passes by Advance and AdvanceTo. Retries, scopes, dependencies,
// unique keys and everything else work as in a real queue, because it is one; see
// queue.Inline.
//
// The queue does not control the system's time, which a job may read, or the job's maximum
// time: these are real.
type Queue struct {
	*queue.Inline
	t     testing.TB
	began time.Time
	// kept is how long jobs that succeeded are kept; amboy.KeepForever for no limit.
	kept time.Duration
}

// New returns an empty queue. Its time starts at the system's time. It is closed when the
// test ends.
func New(t testing.TB) *Queue {
	t.Helper()
	return NewWithOptions(t, queue.InlineOptions{})
}

// NewWithOptions is like New, with options. The test fails if they are invalid.
func NewWithOptions(t testing.TB, opts queue.InlineOptions) *Queue {
	t.Helper()
	q, err := queue.NewInline(opts)
	if err != nil {
		t.Fatalf("amboytest: %v", err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	return &Queue{Inline: q, t: t, began: q.Now(), kept: cmp.Or(opts.Retention.Succeeded, amboy.DefaultKeepSucceeded)}
}

// RunAll is RunAll of queue.Inline. If no job runs, it logs why jobs are pending, as far as
// that is known: for instance that no function is bound.
func (q *Queue) RunAll(ctx context.Context) (ran int) {
	q.t.Helper()
	ran = q.Inline.RunAll(ctx)
	if ran > 0 {
		return ran
	}
	for info, err := range q.FindJobs(ctx, amboy.JobQuery{States: []amboy.JobState{amboy.StatePending}}) {
		if err != nil {
			q.t.Logf("amboytest: could not find out why no job ran: %v", err)
			break
		}
		if info.Reason != "" {
			q.t.Logf("amboytest: job %q did not run: %s", info.ID, info.Reason)
		}
	}
	return ran
}

// Advance moves the queue's time forward by d, which must not be negative. It runs nothing.
func (q *Queue) Advance(d time.Duration) {
	q.t.Helper()
	q.AdvanceTo(q.later(d))
}

// RunFor moves the queue's time forward by d, which must not be negative, and runs each
// job at its time, until ctx ends. It returns the number of jobs that ran.
func (q *Queue) RunFor(ctx context.Context, d time.Duration) (ran int) {
	q.t.Helper()
	return q.RunUntil(ctx, q.later(d))
}

func (q *Queue) later(d time.Duration) time.Time {
	q.t.Helper()
	if d < 0 {
		q.t.Fatalf("amboytest: time can't be advanced by a negative duration (is %s)", d)
	}
	return q.Now().Add(d)
}
