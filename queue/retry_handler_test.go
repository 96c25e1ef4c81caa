package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// retriedJob is a job that asked for a retry.
type retriedJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	Path     string   `bson:"path" json:"path"`
	Bytes    int64    `bson:"bytes" json:"bytes"`
	Tags     []string `bson:"tags" json:"tags"`

	panicOnLock bool
}

func init() {
	registry.AddJobType("retried", func() amboy.Job { return newRetriedJob("") })
}

// newRetriedJob returns a job whose first attempt has failed and asks for another.
func newRetriedJob(id string) *retriedJob {
	j := &retriedJob{}
	j.SetID(id)
	j.JobType = amboy.JobType{Name: "retried", Version: 3}
	retryable := true
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
	j.AddRetryableError(errors.New("no route to host"))
	j.MarkComplete()
	return j
}

func (j *retriedJob) Run(context.Context) {}

func (j *retriedJob) Lock(owner string, timeout time.Duration) error {
	if j.panicOnLock {
		panic("lock is broken")
	}
	return j.Base.Lock(owner, timeout)
}

// retryCall is a call of a retryQueue. It does not hold a job.
type retryCall struct {
	method string
	id     string
	at     time.Duration // since the queue was made
}

// retryQueue is a queue of retrying jobs.
type retryQueue struct {
	amboy.RetryableQueue
	made time.Time
	// read, replace and end are called by GetAttempt, CompleteRetryingAndPut and
	// CompleteRetrying, if they are set.
	read    func() error
	replace func(ctx context.Context, id string) error
	end     func(ctx context.Context, id string) error

	mu     sync.Mutex
	stored map[string]amboy.Job
	next   map[string]amboy.Job
	calls  []retryCall
}

// newRetryQueue returns a queue that stores the jobs.
func newRetryQueue(jobs ...amboy.Job) *retryQueue {
	q := &retryQueue{made: time.Now(), stored: map[string]amboy.Job{}, next: map[string]amboy.Job{}}
	for _, j := range jobs {
		q.stored[j.ID()] = j
	}
	return q
}

func (q *retryQueue) ID() string { return "retry-queue" }

func (q *retryQueue) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: true, LockTimeout: time.Minute}
}

func (q *retryQueue) record(method, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, retryCall{method, id, time.Since(q.made)})
}

// called lists the calls of a method in order.
func (q *retryQueue) called(method string) (calls []retryCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, call := range q.calls {
		if call.method == method {
			calls = append(calls, call)
		}
	}
	return calls
}

// times lists when a method was called.
func (q *retryQueue) times(method string) (times []time.Duration) {
	for _, call := range q.called(method) {
		times = append(times, call.at)
	}
	return times
}

func (q *retryQueue) GetAttempt(_ context.Context, id string, attempt int) (amboy.Job, error) {
	q.record("GetAttempt", id)
	if q.read != nil {
		if err := q.read(); err != nil {
			return nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	j, ok := q.stored[id]
	if !ok || j.RetryInfo().CurrentAttempt != attempt {
		return nil, amboy.NewJobNotFoundErrorf("attempt %d of job %q not found", attempt, id)
	}
	return j, nil
}

func (q *retryQueue) CompleteRetryingAndPut(ctx context.Context, toComplete, toPut amboy.Job) error {
	q.record("CompleteRetryingAndPut", toComplete.ID())
	if q.replace != nil {
		if err := q.replace(ctx, toComplete.ID()); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.stored[toComplete.ID()]; ok {
		q.next[toPut.ID()] = toPut
	}
	return nil
}

func (q *retryQueue) CompleteRetrying(ctx context.Context, j amboy.Job) error {
	q.record("CompleteRetrying", j.ID())
	if q.end != nil {
		return q.end(ctx, j.ID())
	}
	return nil
}

// pass lets fake time pass, and then waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// startRetryHandler starts a handler that is closed at the end of the test.
func startRetryHandler(t *testing.T, q amboy.RetryableQueue, opts amboy.RetryHandlerOptions) *queue.BasicRetryHandler {
	t.Helper()
	h, err := queue.NewBasicRetryHandler(q, opts)
	require.NoError(t, err)
	require.NoError(t, h.Start(t.Context()))
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

func TestRetryHandlerMakesNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		j.Path, j.Bytes = "/var/log/syslog", 1<<60
		j.SetPriority(7)
		j.SetScopes([]string{"disk", "network"})
		j.SetEnqueueScopes("disk")
		require.NoError(t, j.Dependency().AddEdge("download"))
		maxAttempts, waitUntil, dispatchBy := 5, time.Minute, time.Hour
		j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &maxAttempts, WaitUntil: &waitUntil, DispatchBy: &dispatchBy})
		put := time.Now()
		j.SetTimeInfo(amboy.JobTimeInfo{Created: put, Start: put, End: put, WaitUntil: put, DispatchBy: put, MaxTime: time.Second})
		status := j.Status()
		status.DroppedErrors = 4
		j.SetStatus(status)
		q := newRetryQueue(j)
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

		pass(time.Second) // The retry starts later than the run ended.
		require.NoError(t, h.Put(t.Context(), j))
		synctest.Wait()

		now := time.Now()
		require.Contains(t, q.next, "upload")
		next := q.next["upload"].(*retriedJob)
		assert.NotSame(t, j, next)
		assert.Equal(t, j.Type(), next.Type())
		assert.Equal(t, "/var/log/syslog", next.Path)
		assert.Equal(t, int64(1<<60), next.Bytes)
		assert.Nil(t, next.Tags)
		assert.Equal(t, 7, next.Priority())
		assert.Equal(t, []string{"disk", "network"}, next.Scopes())
		assert.Equal(t, []string{"disk"}, next.EnqueueScopes())
		assert.False(t, next.EnqueueAllScopes())
		assert.Equal(t, []string{"download"}, next.Dependency().Edges())
		assert.Equal(t, dependency.Ready, next.Dependency().State())
		assert.Equal(t, amboy.JobTimeInfo{
			Created:    now,
			WaitUntil:  put.Add(time.Minute), // from the end of the run
			DispatchBy: now.Add(time.Hour),
			MaxTime:    time.Second,
		}, next.TimeInfo())
		assert.Equal(t, amboy.JobRetryInfo{
			Retryable:      true,
			BaseJobID:      "upload",
			CurrentAttempt: 1,
			MaxAttempts:    5,
			WaitUntil:      time.Minute,
			DispatchBy:     time.Hour,
		}, next.RetryInfo())
		require.Len(t, next.Status().Attempts, 1)
		assert.Equal(t, "no route to host", next.Status().Attempts[0].Error)
		assert.Equal(t, amboy.JobStatusInfo{Attempts: next.Status().Attempts, DroppedErrors: 4}, next.Status())

		assert.Equal(t, now, j.RetryInfo().Start)
		assert.Equal(t, now, j.RetryInfo().End)
		assert.Equal(t, q.ID(), j.Status().Owner)
		assert.Equal(t, []string{"no route to host"}, j.Status().Errors)
	})
}

func TestRetryHandlerMakesNextAttemptWithoutTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		q := newRetryQueue(j)
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

		require.NoError(t, h.Put(t.Context(), j))
		synctest.Wait()

		require.Contains(t, q.next, "upload")
		assert.Equal(t, amboy.JobTimeInfo{Created: time.Now()}, q.next["upload"].TimeInfo())
	})
}

func TestRetryHandlerEndsJobsThatGetNoNextAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(j *retriedJob)
		err    string
	}{
		"attempts used up": {
			change: func(j *retriedJob) {
				last, all := 1, 2
				j.UpdateRetryInfo(amboy.JobRetryOptions{CurrentAttempt: &last, MaxAttempts: &all})
			},
			err: "attempt 1 to enqueue retrying job: job has reached its maximum attempt limit",
		},
		"type not registered": {
			change: func(j *retriedJob) { j.JobType.Name = "unheard-of" },
			err:    `attempt 1 to enqueue retrying job: copying the job: type "unheard-of" of job "upload" is not registered`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRetriedJob("upload")
				test.change(j)
				q := newRetryQueue(j)
				failures := 2
				q.end = func(context.Context, string) error {
					failures--
					if failures >= 0 {
						return errors.New("no primary")
					}
					return nil
				}
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{RetryBackoff: time.Second})

				require.NoError(t, h.Put(t.Context(), j))
				pass(time.Minute)

				assert.Empty(t, q.called("CompleteRetryingAndPut"))
				assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, q.times("CompleteRetrying"))
				assert.Equal(t, []string{"no route to host"}, j.Status().Errors)
				assert.Equal(t, []string{test.err}, bookkeeping(j))
				assert.Equal(t, 2*time.Second, j.RetryInfo().End.Sub(j.RetryInfo().Start))
			})
		})
	}
}

// bookkeeping returns the messages of a job's bookkeeping errors, which the queue added.
func bookkeeping(j amboy.Job) (messages []string) {
	for _, e := range j.Status().Attempts {
		if e.Bookkeeping {
			messages = append(messages, e.Error)
		}
	}
	return messages
}

func TestRetryHandlerSkips(t *testing.T) {
	for name, change := range map[string]func(j *retriedJob){
		"a job that does not ask for a retry": func(j *retriedJob) {
			no := false
			j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: &no})
		},
		"a job that is not retryable": func(j *retriedJob) {
			no := false
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &no})
		},
		"a job that another queue retries": func(j *retriedJob) {
			if err := j.Lock("another", time.Minute); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRetriedJob("upload")
				change(j)
				before := j.Status()
				q := newRetryQueue(j)
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

				require.NoError(t, h.Put(t.Context(), j))
				pass(time.Minute)

				assert.Empty(t, q.calls)
				assert.Equal(t, before, j.Status())
				assert.Zero(t, j.RetryInfo().Start)
				assert.Zero(t, j.RetryInfo().End)
			})
		})
	}
}

func TestRetryHandlerLeavesSettledJobs(t *testing.T) {
	for name, err := range map[string]error{
		"next attempt exists": fmt.Errorf("putting: %w", amboy.NewDuplicateJobError("it is there")),
		"job is gone":         fmt.Errorf("completing: %w", amboy.NewJobNotFoundError("it is not there")),
		"lease is lost":       fmt.Errorf("completing: %w", amboy.ErrLeaseLost),
		"queue is closed":     fmt.Errorf("completing: %w", amboy.ErrQueueClosed),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRetriedJob("upload")
				q := newRetryQueue(j)
				q.replace = func(context.Context, string) error { return err }
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

				require.NoError(t, h.Put(t.Context(), j))
				pass(time.Minute)

				assert.Len(t, q.calls, 1)
				assert.Equal(t, []string{"no route to host"}, j.Status().Errors)
			})
		})
	}
}

func TestRetryHandlerTriesAgain(t *testing.T) {
	for name, err := range map[string]error{
		"after a plain error":         errors.New("no primary"),
		"after a scope that was held": amboy.NewDuplicateJobScopeError("disk is held"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRetriedJob("upload")
				q := newRetryQueue(j)
				failures := 2
				q.replace = func(context.Context, string) error {
					failures--
					if failures >= 0 {
						return err
					}
					return nil
				}
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{RetryBackoff: 3 * time.Second})

				require.NoError(t, h.Put(t.Context(), j))
				pass(time.Minute)

				assert.Equal(t, []time.Duration{0, 3 * time.Second, 6 * time.Second}, q.times("CompleteRetryingAndPut"))
				assert.Empty(t, q.called("CompleteRetrying"))
				assert.Contains(t, q.next, "upload")
				assert.Equal(t, 6*time.Second, j.RetryInfo().End.Sub(j.RetryInfo().Start))
				assert.Equal(t, 1, j.Status().ModificationCount, "the job must be locked once")
			})
		})
	}
}

// refuse is the answer of a store that can't be reached.
func refuse(context.Context, string) error { return errors.New("no primary") }

func TestRetryEndedAsFailedWithAttemptsLeftWhileTheStoreRefused(t *testing.T) {
	hang := func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	seconds := func(times ...int) (at []time.Duration) {
		for _, s := range times {
			at = append(at, time.Duration(s)*time.Second)
		}
		return at
	}
	for name, test := range map[string]struct {
		opts    amboy.RetryHandlerOptions
		replace func(context.Context, string) error
		tries   []time.Duration // the first tries
	}{
		"by errors, with the default options": {
			replace: refuse,
			tries:   seconds(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 33, 37),
		},
		"by errors, more often than a round has tries": {
			opts:    amboy.RetryHandlerOptions{MaxRetryAttempts: 3},
			replace: refuse,
			tries:   seconds(0, 1, 2, 4, 6, 8, 12, 16, 20, 25, 30, 35, 40),
		},
		"by errors, for longer than a round lasts": {
			opts:    amboy.RetryHandlerOptions{MaxRetryTime: 5 * time.Second, RetryBackoff: 2 * time.Second},
			replace: refuse,
			tries:   seconds(0, 2, 4, 8, 12, 17, 22),
		},
		"by errors, with a backoff that is longer than the longest of the others": {
			opts:    amboy.RetryHandlerOptions{MaxRetryAttempts: 1, RetryBackoff: 20 * time.Second},
			replace: refuse,
			tries:   seconds(0, 20, 40, 60),
		},
		"by not answering": {
			opts:    amboy.RetryHandlerOptions{MaxRetryTime: time.Nanosecond, RetryBackoff: 2 * time.Second},
			replace: hang,
			tries:   seconds(0, 14, 29, 44),
		},
		"by a panic": {
			opts:    amboy.RetryHandlerOptions{MaxRetryAttempts: 1},
			replace: func(context.Context, string) error { panic("driver is broken") },
			tries:   seconds(0, 2, 6, 11, 16),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newRetriedJob("upload")
				q := newRetryQueue(j)
				answers := make(chan struct{})
				q.replace = func(ctx context.Context, id string) error {
					select {
					case <-answers:
						return nil
					default:
						return test.replace(ctx, id)
					}
				}
				h := startRetryHandler(t, q, test.opts)

				require.NoError(t, h.Put(t.Context(), j))
				pass(2 * time.Hour)

				tried := q.times("CompleteRetryingAndPut")
				require.GreaterOrEqual(t, len(tried), len(test.tries))
				assert.Equal(t, test.tries, tried[:len(test.tries)])
				assert.Empty(t, q.called("CompleteRetrying"))
				assert.True(t, j.RetryInfo().ShouldRetry())
				assert.Equal(t, []string{"no route to host"}, j.Status().Errors)

				close(answers)
				pass(time.Minute)
				assert.Contains(t, q.next, "upload")
			})
		})
	}
}

func TestRetryHandlerEndsJobsWhoseNextAttemptIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		q := newRetryQueue(j)
		q.replace = func(context.Context, string) error {
			return &amboy.InvalidJobError{JobID: "upload", Field: "wait-until", Rule: "must not be after dispatch-by"}
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

		require.NoError(t, h.Put(t.Context(), j))
		pass(time.Hour)

		assert.Equal(t, []time.Duration{0}, q.times("CompleteRetryingAndPut"))
		assert.Equal(t, []time.Duration{0}, q.times("CompleteRetrying"))
		assert.Equal(t, []string{"no route to host"}, j.Status().Errors)
		assert.Equal(t, []string{
			`attempt 1 to enqueue retrying job: invalid job "upload": wait-until must not be after dispatch-by (is <nil>)`,
		}, bookkeeping(j))
	})
}

func TestRetryHandlerEndsJobsThatTheStoreRefusedToEndForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		all := 1
		j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &all})
		q := newRetryQueue(j)
		day := time.Now().Add(24 * time.Hour)
		q.end = func(ctx context.Context, id string) error {
			if time.Now().Before(day) {
				return refuse(ctx, id)
			}
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

		require.NoError(t, h.Put(t.Context(), j))
		pass(25 * time.Hour)

		ended := q.times("CompleteRetrying")
		assert.Less(t, ended[len(ended)-1], 24*time.Hour+6*time.Second)
		assert.Len(t, bookkeeping(j), 1, "the cause must be added once")
	})
}

func TestRetryHandlerWorksWhileJobsWaitForAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing, fine := newRetriedJob("failing"), newRetriedJob("fine")
		q := newRetryQueue(failing, fine)
		q.replace = func(_ context.Context, id string) error {
			if id == "failing" {
				return errors.New("no primary")
			}
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{NumWorkers: 1, RetryBackoff: time.Second})

		require.NoError(t, h.Put(t.Context(), failing))
		synctest.Wait()
		require.NoError(t, h.Put(t.Context(), fine))
		synctest.Wait()

		assert.Contains(t, q.next, "fine")
		assert.NotContains(t, q.next, "failing")
	})
}

func TestRetryHandlerTriesEachJobAgainInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newRetriedJob("first"), newRetriedJob("second")
		q := newRetryQueue(first, second)
		q.replace = func(context.Context, string) error {
			if time.Since(q.made) < time.Second {
				return errors.New("no primary")
			}
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{RetryBackoff: 3 * time.Second})

		require.NoError(t, h.Put(t.Context(), first))
		pass(time.Second / 2)
		require.NoError(t, h.Put(t.Context(), second))
		pass(time.Minute)

		assert.Equal(t, []time.Duration{0, time.Second / 2, 3 * time.Second, 7 * time.Second / 2}, q.times("CompleteRetryingAndPut"))
	})
}

func TestRetryHandlerUsesAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := []amboy.Job{newRetriedJob("a"), newRetriedJob("b"), newRetriedJob("c"), newRetriedJob("d")}
		q := newRetryQueue(jobs...)
		release := make(chan struct{})
		q.replace = func(context.Context, string) error {
			if time.Since(q.made) == 0 {
				return errors.New("no primary")
			}
			<-release
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{NumWorkers: 3, RetryBackoff: time.Second})
		for _, j := range jobs {
			require.NoError(t, h.Put(t.Context(), j))
		}

		pass(time.Second) // One timer fires for all four retries.
		assert.Len(t, q.called("CompleteRetryingAndPut"), len(jobs)+3)

		close(release)
		synctest.Wait()
		assert.Len(t, q.next, len(jobs))
	})
}

func TestRetryHandlerPutDoesNotBlockWhenFull(t *testing.T) {
	const jobs = 100
	for name, test := range map[string]struct {
		capacity int
		readBack int
	}{
		// A worker handles the first job, so it does not wait.
		"one":      {capacity: 1, readBack: jobs - 2},
		"ten":      {capacity: 10, readBack: jobs - 11},
		"no limit": {capacity: -1, readBack: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newRetryQueue()
				release := make(chan struct{})
				q.replace = func(context.Context, string) error { <-release; return nil }
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxCapacity: test.capacity})
				for i := range jobs {
					j := newRetriedJob(fmt.Sprint("job-", i))
					q.stored[j.ID()] = j
					require.NoError(t, h.Put(t.Context(), j))
					synctest.Wait()
				}

				close(release)
				synctest.Wait()

				assert.Len(t, q.next, jobs)
				assert.Len(t, q.called("GetAttempt"), test.readBack)
			})
		})
	}
}

func TestRetryHandlerHoldsNoMoreJobsThanItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := []amboy.Job{newRetriedJob("a"), newRetriedJob("b"), newRetriedJob("c")}
		q := newRetryQueue(jobs...)
		q.replace = func(context.Context, string) error {
			if time.Since(q.made) == 0 {
				return errors.New("no primary")
			}
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxCapacity: 1})
		for _, j := range jobs {
			require.NoError(t, h.Put(t.Context(), j))
			synctest.Wait()
		}

		pass(time.Minute)

		assert.Len(t, q.next, 3)
		// The first job is held while it waits for another try, so the others are read
		// from the queue for both of their tries.
		assert.Equal(t, []time.Duration{0, 0, time.Second, time.Second}, q.times("GetAttempt"))
		assert.Equal(t, 1, jobs[0].Status().ModificationCount)
		assert.Equal(t, 2, jobs[1].Status().ModificationCount, "each copy that is read from the queue must be locked")
	})
}

func TestRetryHandlerSkipsJobsThatCannotBeReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRetryQueue()
		release := make(chan struct{})
		q.replace = func(context.Context, string) error { <-release; return nil }
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxCapacity: 1})
		for _, id := range []string{"at the worker", "held", "gone"} {
			require.NoError(t, h.Put(t.Context(), newRetriedJob(id)))
			synctest.Wait()
		}

		close(release)
		pass(time.Minute)

		assert.Len(t, q.called("GetAttempt"), 1)
		assert.Len(t, q.called("CompleteRetryingAndPut"), 2)
	})
}

func TestRetryHandlerTriesAgainToReadJobsBack(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		reads    []time.Duration
		replaced int
	}{
		"once":                              {failures: 1, reads: []time.Duration{0, time.Second}, replaced: 2},
		"more often than a round has tries": {failures: 4, reads: []time.Duration{0, 1 * time.Second, 2 * time.Second, 4 * time.Second, 6 * time.Second}, replaced: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held, dropped := newRetriedJob("held"), newRetriedJob("dropped")
				q := newRetryQueue(held, dropped)
				q.read = func() error {
					test.failures--
					if test.failures >= 0 {
						return errors.New("no primary")
					}
					return nil
				}
				q.replace = func(_ context.Context, id string) error {
					if id == "held" && time.Since(q.made) == 0 {
						return errors.New("no primary")
					}
					return nil
				}
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxCapacity: 1, MaxRetryAttempts: 3})
				require.NoError(t, h.Put(t.Context(), held))
				synctest.Wait()
				require.NoError(t, h.Put(t.Context(), dropped))

				pass(time.Minute)

				assert.Equal(t, test.reads, q.times("GetAttempt"))
				assert.Len(t, q.next, test.replaced)
				assert.Empty(t, q.called("CompleteRetrying"))
			})
		})
	}
}

func TestRetryHandlerTakesAnAttemptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		q := newRetryQueue(j)
		release := make(chan struct{})
		q.replace = func(context.Context, string) error {
			<-release
			if time.Since(q.made) < time.Second {
				return errors.New("no primary")
			}
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{NumWorkers: 2, RetryBackoff: time.Second})

		require.NoError(t, h.Put(t.Context(), j))
		require.NoError(t, h.Put(t.Context(), j), "while it waits")
		synctest.Wait()
		require.NoError(t, h.Put(t.Context(), j), "while a worker handles it")
		synctest.Wait()
		assert.Len(t, q.called("CompleteRetryingAndPut"), 1)
		close(release)
		synctest.Wait()
		require.NoError(t, h.Put(t.Context(), j), "while it waits for another try")
		pass(time.Minute)
		assert.Equal(t, []time.Duration{0, time.Second}, q.times("CompleteRetryingAndPut"))

		other := newRetriedJob("upload")
		attempt := 1
		other.UpdateRetryInfo(amboy.JobRetryOptions{CurrentAttempt: &attempt})
		require.NoError(t, h.Put(t.Context(), other))
		synctest.Wait()
		assert.Len(t, q.called("CompleteRetryingAndPut"), 3, "another attempt of the job is not the same")
	})
}

func TestRetryWorkerSurvivesPanic(t *testing.T) {
	panicking := func(context.Context, string) error { panic("queue is broken") }
	for name, change := range map[string]func(j *retriedJob, q *retryQueue){
		"of the queue that replaces": func(_ *retriedJob, q *retryQueue) { q.replace = panicking },
		"of the queue that ends": func(j *retriedJob, q *retryQueue) {
			all := 1
			j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &all})
			q.end = panicking
		},
		"of the job": func(j *retriedJob, _ *retryQueue) { j.panicOnLock = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, other := newRetriedJob("broken"), newRetriedJob("fine")
				q := newRetryQueue(j, other)
				change(j, q)
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{NumWorkers: 1})

				require.NoError(t, h.Put(t.Context(), j))
				synctest.Wait()
				q.replace = nil
				require.NoError(t, h.Put(t.Context(), other))
				synctest.Wait()
				assert.Contains(t, q.next, "fine")
			})
		})
	}
}

func TestRetryHandlerEndsJobsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("broken")
		j.panicOnLock = true
		q := newRetryQueue(j)
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})

		require.NoError(t, h.Put(t.Context(), j))
		pass(time.Minute)

		assert.Len(t, q.called("CompleteRetrying"), 1)
		status := j.Status()
		assert.Equal(t, []string{"no route to host"}, status.Errors)
		assert.Equal(t, []string{"attempt 1 to enqueue retrying job: panic: lock is broken"}, bookkeeping(j))
		require.Len(t, status.Attempts, 2)
		assert.Contains(t, status.Attempts[1].Stack, "retry_handler_test.go")
	})
}

// putAndDrop hands a job over. It returns a pointer that becomes nil once the handler no
// longer holds the job.
func putAndDrop(t *testing.T, h *queue.BasicRetryHandler, j *retriedJob) weak.Pointer[retriedJob] {
	t.Helper()
	require.NoError(t, h.Put(t.Context(), j))
	return weak.Make(j)
}

func TestRetryHandlerForgetsHandledJobs(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(j *retriedJob, q *retryQueue)
		handled int // calls of CompleteRetryingAndPut for a job
	}{
		"that were replaced": {change: func(*retriedJob, *retryQueue) {}, handled: 1},
		"that ended": {change: func(j *retriedJob, _ *retryQueue) {
			all := 1
			j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &all})
		}},
		"whose next attempt was refused": {change: func(_ *retriedJob, q *retryQueue) {
			q.replace = func(context.Context, string) error { return &amboy.InvalidJobError{} }
		}, handled: 1},
		"that were settled": {change: func(_ *retriedJob, q *retryQueue) {
			q.replace = func(context.Context, string) error { return amboy.ErrLeaseLost }
		}, handled: 1},
		"that panicked": {change: func(j *retriedJob, _ *retryQueue) { j.panicOnLock = true }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newRetryQueue()
				h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxRetryAttempts: 2})
				put := func() weak.Pointer[retriedJob] {
					j := newRetriedJob("upload")
					test.change(j, q)
					return putAndDrop(t, h, j)
				}
				pointer := put()
				pass(time.Minute)
				require.Len(t, q.called("CompleteRetryingAndPut"), test.handled)
				runtime.GC()
				assert.Nil(t, pointer.Value(), "the job is still in memory")

				put()
				pass(time.Minute)
				assert.Len(t, q.called("CompleteRetryingAndPut"), 2*test.handled, "its ID is still known")
			})
		})
	}
}

func TestRetryHandlerForgetsHandledJobsWhileOthersWait(t *testing.T) {
	blocking := func(ctx context.Context, id string) error {
		if id == "second" {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	failing := func(_ context.Context, id string) error {
		if id == "second" {
			return errors.New("no primary")
		}
		return nil
	}
	var calls int
	failingOnce := func(context.Context, string) error {
		calls++
		if calls <= 2 {
			return errors.New("no primary")
		}
		return nil
	}
	for name, test := range map[string]struct {
		replace func(context.Context, string) error
		between time.Duration
		after   time.Duration
	}{
		"for a worker":                      {replace: blocking},
		"for another try":                   {replace: failing},
		"for another try, as the others do": {replace: failingOnce, between: 10 * time.Second, after: 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newRetryQueue()
				q.replace = test.replace
				h, err := queue.NewBasicRetryHandler(q, amboy.RetryHandlerOptions{RetryBackoff: time.Minute, MaxRetryTime: time.Hour})
				require.NoError(t, err)
				require.NoError(t, h.Start(t.Context()))
				pointer := putAndDrop(t, h, newRetriedJob("first"))
				<-time.After(test.between)
				require.NoError(t, h.Put(t.Context(), newRetriedJob("second")))
				require.NoError(t, h.Put(t.Context(), newRetriedJob("third")))
				pass(test.after)

				runtime.GC()
				assert.Nil(t, pointer.Value(), "the job is still in memory")
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				h.Close(ctx)
			})
		})
	}
}

func TestRetryHandlerCloseForgetsJobsThatFailMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRetryQueue()
		q.replace = func(context.Context, string) error {
			<-time.After(time.Second)
			return errors.New("no primary")
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})
		pointer := putAndDrop(t, h, newRetriedJob("upload"))
		synctest.Wait()

		h.Close(t.Context())

		runtime.GC()
		assert.Nil(t, pointer.Value(), "the job is still in memory")
		runtime.KeepAlive(h)
	})
}

func TestRetryHandlerMemoryDoesNotGrowWithHandledJobs(t *testing.T) {
	const jobs = 10_000
	synctest.Test(t, func(t *testing.T) {
		q := &discardingQueue{}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{NumWorkers: 4, MaxCapacity: jobs / 2})
		put := func() {
			all := 1
			for i := range jobs {
				j := newRetriedJob(fmt.Sprint(i, strings.Repeat("x", 200)))
				j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &all})
				require.NoError(t, h.Put(t.Context(), j))
			}
			synctest.Wait()
		}
		inUse := func() uint64 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			return stats.HeapAlloc
		}
		before := inUse()
		put()
		after := inUse()
		assert.Less(t, after, before+jobs*100, "the IDs alone are twice as large")
		runtime.KeepAlive(h)
	})
}

// discardingQueue is a queue that ends every retry and stores nothing.
type discardingQueue struct{ amboy.RetryableQueue }

func (*discardingQueue) ID() string            { return "discarding" }
func (*discardingQueue) Info() amboy.QueueInfo { return amboy.QueueInfo{} }

func (*discardingQueue) GetAttempt(_ context.Context, id string, _ int) (amboy.Job, error) {
	return nil, amboy.NewJobNotFoundErrorf("job %q is not there", id)
}

func (*discardingQueue) CompleteRetrying(context.Context, amboy.Job) error { return nil }

func TestRetryHandlerLifecycle(t *testing.T) {
	ctx := t.Context()
	h, err := queue.NewBasicRetryHandler(nil, amboy.RetryHandlerOptions{})
	require.NoError(t, err)
	assert.False(t, h.Started())
	require.EqualError(t, h.Start(ctx), "starting a retry handler: retry handler has no queue")
	require.Error(t, h.SetQueue(nil))
	require.NoError(t, h.SetQueue(newRetryQueue()))
	require.EqualError(t, h.Put(ctx, newRetriedJob("upload")), `handing job "upload" to the retry handler: retry handler is not started`)

	require.NoError(t, h.Start(ctx))
	assert.True(t, h.Started())
	require.NoError(t, h.Start(ctx), "a second Start does nothing")
	require.ErrorIs(t, h.SetQueue(newRetryQueue()), amboy.ErrAlreadyStarted)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, h.Put(ctx, nil), &invalid)
	require.ErrorAs(t, h.Put(ctx, (*retriedJob)(nil)), &invalid)

	h.Close(ctx)
	assert.False(t, h.Started())
	require.EqualError(t, h.Put(ctx, newRetriedJob("upload")), `handing job "upload" to the retry handler: retry handler is closed`)
	require.EqualError(t, h.Start(ctx), "starting a retry handler: retry handler is closed")
	h.Close(ctx)
}

func TestRetryHandlerClosedBeforeStart(t *testing.T) {
	h, err := queue.NewBasicRetryHandler(newRetryQueue(), amboy.RetryHandlerOptions{})
	require.NoError(t, err)
	h.Close(t.Context())
	assert.EqualError(t, h.Start(t.Context()), "starting a retry handler: retry handler is closed")
}

func TestRetryHandlerRefusesOptions(t *testing.T) {
	_, err := queue.NewBasicRetryHandler(newRetryQueue(), amboy.RetryHandlerOptions{NumWorkers: -1})
	assert.ErrorContains(t, err, "NumWorkers must not be negative")
}

func TestRetryHandlerCloseFinishesJobsInWorkAndDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delayed, inWork, waiting := newRetriedJob("delayed"), newRetriedJob("in work"), newRetriedJob("waiting")
		q := newRetryQueue(delayed, inWork, waiting)
		q.replace = func(_ context.Context, id string) error {
			if id == "delayed" {
				return errors.New("no primary")
			}
			<-time.After(time.Second)
			return nil
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{})
		for _, j := range []amboy.Job{delayed, inWork, waiting} {
			require.NoError(t, h.Put(t.Context(), j))
			synctest.Wait()
		}

		h.Close(t.Context())

		assert.Equal(t, time.Second, time.Since(q.made))
		assert.Contains(t, q.next, "in work")
		pass(time.Minute)
		assert.Len(t, q.called("CompleteRetryingAndPut"), 2)
		assert.Empty(t, q.called("CompleteRetrying"))
		assert.True(t, delayed.RetryInfo().ShouldRetry())
		assert.True(t, waiting.RetryInfo().ShouldRetry())
	})
}

func TestRetryHandlerCloseCancelsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newRetriedJob("upload")
		q := newRetryQueue(j)
		q.replace = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		h := startRetryHandler(t, q, amboy.RetryHandlerOptions{MaxRetryAttempts: 1})
		require.NoError(t, h.Put(t.Context(), j))
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.Close(ctx)

		assert.Equal(t, time.Second, time.Since(q.made))
		assert.Empty(t, q.called("CompleteRetrying"), "the job is unchanged")
		assert.Equal(t, []string{"no route to host"}, j.Status().Errors)
	})
}

func TestRetryHandlerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h, err := queue.NewBasicRetryHandler(newRetryQueue(), amboy.RetryHandlerOptions{})
		require.NoError(t, err)
		require.NoError(t, h.Start(ctx))

		cancel()
		synctest.Wait()

		assert.False(t, h.Started())
		assert.Error(t, h.Put(t.Context(), newRetriedJob("upload")))
	})
}

func TestRetryHandlerThatHasWorkedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newRetryQueue()
		h, err := queue.NewBasicRetryHandler(q, amboy.RetryHandlerOptions{NumWorkers: 2})
		require.NoError(t, err)
		require.NoError(t, h.Start(ctx))
		require.NoError(t, h.Put(t.Context(), newRetriedJob("upload")))
		synctest.Wait()
		require.Len(t, q.called("CompleteRetryingAndPut"), 1)

		cancel()
		synctest.Wait()

		assert.False(t, h.Started())
		assert.Error(t, h.Put(t.Context(), newRetriedJob("download")))
	})
}

func TestIdleRetryHandlerHadGoroutines(t *testing.T) {
	// A goroutine that is left would fail the test.
	synctest.Test(t, func(t *testing.T) {
		h, err := queue.NewBasicRetryHandler(newRetryQueue(), amboy.RetryHandlerOptions{NumWorkers: 2})
		require.NoError(t, err)
		require.NoError(t, h.Start(context.WithoutCancel(t.Context())))
	})
}

func TestRetryHandlerConcurrentUse(t *testing.T) {
	const putters, jobs = 4, 50
	q := newRetryQueue()
	var left sync.WaitGroup
	left.Add(putters * jobs)
	q.replace = func(context.Context, string) error { left.Done(); return nil }
	h, err := queue.NewBasicRetryHandler(q, amboy.RetryHandlerOptions{NumWorkers: 3})
	require.NoError(t, err)
	require.NoError(t, h.Start(t.Context()))
	for i := range putters {
		go func() {
			for n := range jobs {
				assert.NoError(t, h.Put(t.Context(), newRetriedJob(fmt.Sprintf("%d-%d", i, n))))
			}
		}()
	}
	left.Wait()
	var closers sync.WaitGroup
	for range putters {
		closers.Go(func() { h.Close(t.Context()) })
	}
	closers.Wait()
	assert.False(t, h.Started())
}
