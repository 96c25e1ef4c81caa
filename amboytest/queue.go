// Package amboytest is for tests of code that puts jobs, and of the jobs: a queue
// whose jobs run when the test says so, on its goroutine, at times that it chooses,
// and assertions about what was put.
package amboytest

import (
	"context"
	"testing"
	"time"

	"github.com/mongodb/amboy/queue"
)

// Queue is a queue for one test. It does nothing by itself: a job runs on the
// goroutine that calls RunNext, RunAll or RunUntil, or that waits for it with
// amboy.Wait or amboy.WaitJob, and time passes by Advance and AdvanceTo. Retries,
// scopes, dependencies, unique keys and all else are as in a real queue, because it
// is one; see queue.Inline.
//
// What a job does with the time of the system, and its maximum time, are not of the
// queue: they are real.
type Queue struct {
	*queue.Inline
	t testing.TB
}

// New returns an empty queue, whose time is that of the system at first. It is
// closed when the test ends.
func New(t testing.TB) *Queue {
	t.Helper()
	return NewWithOptions(t, queue.InlineOptions{})
}

// NewWithOptions is New with options. The test fails where they are not valid.
func NewWithOptions(t testing.TB, opts queue.InlineOptions) *Queue {
	t.Helper()
	q, err := queue.NewInline(opts)
	if err != nil {
		t.Fatalf("amboytest: %v", err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	return &Queue{Inline: q, t: t}
}

// Advance makes it later by a time, which must not be negative. It runs nothing.
func (q *Queue) Advance(d time.Duration) {
	q.t.Helper()
	q.AdvanceTo(q.later(d))
}

// RunFor runs jobs, each at its time, until it is later by a time, which must not be
// negative, or ctx ends, and returns how many it ran.
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
