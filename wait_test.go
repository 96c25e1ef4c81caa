package amboy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

const defaultInterval = 100 * time.Millisecond

// waits are the functions that wait for a queue by polling it.
var waits = []struct {
	name     string
	wait     func(ctx context.Context, q amboy.Queue) bool
	interval time.Duration
}{
	{"Wait", amboy.Wait, defaultInterval},
	{"WaitInterval", func(ctx context.Context, q amboy.Queue) bool {
		return amboy.WaitInterval(ctx, q, time.Second)
	}, time.Second},
	{"WaitInterval zero", func(ctx context.Context, q amboy.Queue) bool {
		return amboy.WaitInterval(ctx, q, 0)
	}, defaultInterval},
	{"WaitInterval negative", func(ctx context.Context, q amboy.Queue) bool {
		return amboy.WaitInterval(ctx, q, -time.Second)
	}, defaultInterval},
	{"WaitIntervalNum", func(ctx context.Context, q amboy.Queue) bool {
		return amboy.WaitIntervalNum(ctx, q, time.Second, 2)
	}, time.Second},
	{"WaitIntervalNum zero", func(ctx context.Context, q amboy.Queue) bool {
		return amboy.WaitIntervalNum(ctx, q, 0, 2)
	}, defaultInterval},
}

func TestWaitPollsAtIntervals(t *testing.T) {
	for _, test := range waits {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var polls []time.Duration
				q := &fakeQueue{stats: func(context.Context) amboy.QueueStats {
					polls = append(polls, time.Since(start)/test.interval)
					if len(polls) < 4 {
						return amboy.QueueStats{Total: 2, Completed: 1, Running: 1}
					}
					return amboy.QueueStats{Total: 2, Completed: 2}
				}}
				assert.True(t, test.wait(t.Context(), q))
				assert.Equal(t, []time.Duration{0, 1, 2, 3}, polls)
				assert.Equal(t, 3*test.interval, time.Since(start))
			})
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	for _, test := range waits {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
				defer cancel()
				// A stored queue can't be queried after ctx has ended.
				q := &fakeQueue{stats: func(ctx context.Context) amboy.QueueStats {
					if ctx.Err() != nil {
						return amboy.QueueStats{Completed: 2, Total: 2}
					}
					return amboy.QueueStats{Total: 2, Completed: 1, Pending: 1}
				}}
				assert.False(t, test.wait(ctx, q))
				assert.Equal(t, 10*time.Second+time.Millisecond, time.Since(start))
				assert.False(t, test.wait(ctx, q), "with a context that has ended before")
			})
		})
	}
}

func TestWaitCountsABlockedJobAsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := &fakeQueue{stats: func(context.Context) amboy.QueueStats {
			return amboy.QueueStats{Total: 2, Completed: 1, Pending: 1, Blocked: 1}
		}}
		assert.False(t, amboy.Wait(ctx, q))
	})
}

func TestWaitIntervalNumCountsCompletedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{stats: func(context.Context) amboy.QueueStats {
			return amboy.QueueStats{Total: 10, Completed: 3, Pending: 7}
		}}
		for num, want := range map[int]bool{-1: true, 0: true, 2: true, 3: true, 4: false} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			assert.Equal(t, want, amboy.WaitIntervalNum(ctx, q, time.Second, num), "%d jobs", num)
			cancel()
		}
	})
}

func TestWaitJob(t *testing.T) {
	retrying := amboy.JobRetryOptions{Retryable: ptr(true), NeedsRetry: ptr(true)}
	var nilJob *testJob

	for _, test := range []struct {
		name string
		job  amboy.Job
		// change modifies the job that the queue holds; nil if it holds none.
		change func(j *testJob)
		want   bool
		// wantWait is true if the function waits until its context ends.
		wantWait bool
	}{
		{name: "nil"},
		{name: "nil pointer", job: nilJob},
		{name: "not there", job: newJob("a")},
		{name: "pending", job: newJob("a"), change: func(*testJob) {}, wantWait: true},
		{name: "running", job: newJob("a"), change: func(j *testJob) {
			j.SetStatus(amboy.JobStatusInfo{InProgress: true})
		}, wantWait: true},
		{name: "running, marked as complete", job: newJob("a"), change: func(j *testJob) {
			j.SetStatus(amboy.JobStatusInfo{InProgress: true, Completed: true})
		}, wantWait: true},
		{name: "retrying", job: newJob("a"), change: func(j *testJob) {
			j.SetStatus(amboy.JobStatusInfo{Completed: true})
			j.UpdateRetryInfo(retrying)
		}, wantWait: true},
		{name: "succeeded", job: newJob("a"), change: func(j *testJob) {
			j.SetStatus(amboy.JobStatusInfo{Completed: true})
		}, want: true},
		{name: "failed", job: newJob("a"), change: func(j *testJob) {
			j.SetStatus(amboy.JobStatusInfo{Completed: true, Errors: []string{"no"}})
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true)})
		}, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				q := &fakeQueue{get: func(_ context.Context, id string) (amboy.Job, bool) {
					assert.Equal(t, "a", id)
					if test.change == nil {
						return nil, false
					}
					held := newJob(id)
					test.change(held)
					return held, true
				}}
				assert.Equal(t, test.want, amboy.WaitJob(ctx, test.job, q))
				assert.Equal(t, test.wantWait, ctx.Err() != nil)
				if !test.wantWait {
					assert.Equal(t, test.want, amboy.WaitJobInterval(ctx, test.job, q, time.Second))
				}
			})
		})
	}
}

func TestWaitJobPollsAtIntervals(t *testing.T) {
	for _, test := range []struct {
		name     string
		wait     func(ctx context.Context, j amboy.Job, q amboy.Queue) bool
		interval time.Duration
	}{
		{"WaitJob", amboy.WaitJob, defaultInterval},
		{"WaitJobInterval", func(ctx context.Context, j amboy.Job, q amboy.Queue) bool {
			return amboy.WaitJobInterval(ctx, j, q, time.Second)
		}, time.Second},
		{"WaitJobInterval negative", func(ctx context.Context, j amboy.Job, q amboy.Queue) bool {
			return amboy.WaitJobInterval(ctx, j, q, -1)
		}, defaultInterval},
	} {
		for _, end := range []string{"ends", "disappears"} {
			t.Run(test.name+" "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					j := newJob("a")
					polls := 0
					q := &fakeQueue{get: func(context.Context, string) (amboy.Job, bool) {
						polls++
						if polls == 3 && end == "ends" {
							j.MarkComplete()
						}
						return j, polls < 3 || end == "ends"
					}}
					assert.Equal(t, end == "ends", test.wait(t.Context(), j, q))
					assert.Equal(t, 3, polls)
					assert.Equal(t, 2*test.interval, time.Since(start))
				})
			})
		}
	}
}

// waiterQueue is a CompletionWaiter. Polling it panics.
type waiterQueue struct {
	amboy.Queue
	done map[string]chan struct{}
}

func (q *waiterQueue) WaitComplete(ctx context.Context) bool { return q.WaitJobComplete(ctx, "") }

func (q *waiterQueue) WaitJobComplete(ctx context.Context, id string) bool {
	done, ok := q.done[id]
	if !ok {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func TestWaitUsesACompletionWaiter(t *testing.T) {
	j := newJob("a")
	for _, test := range []struct {
		name string
		id   string
		wait func(ctx context.Context, q amboy.Queue) bool
	}{
		{"Wait", "", amboy.Wait},
		{"WaitInterval", "", func(ctx context.Context, q amboy.Queue) bool {
			return amboy.WaitInterval(ctx, q, time.Second)
		}},
		{"WaitJob", "a", func(ctx context.Context, q amboy.Queue) bool {
			return amboy.WaitJob(ctx, j, q)
		}},
		{"WaitJobInterval", "a", func(ctx context.Context, q amboy.Queue) bool {
			return amboy.WaitJobInterval(ctx, j, q, time.Second)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				done := make(chan struct{})
				q := &waiterQueue{done: map[string]chan struct{}{test.id: done}}

				short, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
				defer cancel()
				assert.False(t, test.wait(short, q))
				assert.Equal(t, 7*time.Millisecond, time.Since(start))

				time.AfterFunc(7*time.Millisecond, func() { close(done) })
				assert.True(t, test.wait(t.Context(), q))
				assert.Equal(t, 14*time.Millisecond, time.Since(start))
			})
		})
	}
	assert.False(t, amboy.WaitJob(t.Context(), newJob("not there"), &waiterQueue{}))
	assert.False(t, amboy.WaitJob(t.Context(), nil, &waiterQueue{}))
}
