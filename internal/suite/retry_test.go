package suite_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

// withPolicy returns the options of a queue with a retry policy.
func withPolicy(p amboy.RetryPolicy) options {
	return options{retryable: queue.RetryableQueueOptions{
		RetryHandler: amboy.RetryHandlerOptions{RetryPolicy: p},
	}}
}

func TestAFailedJobRunsAgain(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		j := f.job("again", func(_ context.Context, j *funcJob) {
			attempt := j.RetryInfo().CurrentAttempt
			ran.add(fmt.Sprint(attempt, j.HasErrors(), j.IsLastAttempt()))
			if attempt < 2 {
				j.AddRetryableError(fmt.Errorf("failure %d", attempt))
			}
			j.Note += "x"
		})
		f.put(q, retryable(j, 5))
		f.drain(q)
		assert.Equal(f, []string{"0 false true", "1 false true", "2 false true"}, ran.all())
		info := f.info(q, "again")
		assert.Equal(f, amboy.StateSucceeded, info.State)
		assert.Equal(f, 2, info.Retry.CurrentAttempt)
		assert.Empty(f, info.Status.Errors)
		require.Len(f, info.Status.Attempts, 2)
		assert.Equal(f, "failure 1", info.Status.Attempts[1].Error)
		assert.Equal(f, 1, info.Status.Attempts[1].Attempt)
		got, ok := q.Get(f.ctx, "again")
		require.True(f, ok)
		assert.Equal(f, "xxx", got.(*funcJob).Note, "an attempt has the note of the one before")
	})
}

func TestAJobWhoseIDIsALongURLIsRetried(t *testing.T) {
	onEach(t, func(f *fixture) {
		id := "https://example.com/search?q=%20&n="
		id += strings.Repeat("0123456789", 1024)[:1024-len(id)]
		q := f.start(options{})
		j := f.job(id, func(_ context.Context, j *funcJob) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		})
		j.SetScopes([]string{id})
		j.SetEnqueueAllScopes(true)
		dependent := f.job(id[:1022]+"é", func(context.Context, *funcJob) {})
		require.NoError(f, dependent.Dependency().AddEdge(id))
		f.put(q, retryable(j, 2), dependent)
		require.True(f, amboy.WaitJob(f.ctx, dependent, q))
		assert.Equal(f, amboy.StateSucceeded, f.state(q, id))
		assert.Equal(f, 1, f.info(q, id).Retry.CurrentAttempt)
		got, ok := q.Get(f.ctx, id)
		require.True(f, ok)
		assert.Equal(f, id, got.ID())
	})
}

func TestAttemptsAreUsedUp(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, retryable(f.job("never", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }), 3))
		f.drain(q)
		info := f.info(q, "never")
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.Equal(f, 2, info.Retry.CurrentAttempt)
		assert.Equal(f, []string{"no"}, info.Status.Errors)
		require.Len(f, info.Status.Attempts, 4)
		last := info.Status.Attempts[3]
		assert.Equal(f, "attempt 1 to enqueue retrying job: job has reached its maximum attempt limit", last.Error)
		assert.True(f, last.Bookkeeping)
		assert.Equal(f, 2, last.Attempt)
	})
}

func TestARetryWithoutAnErrorFailsWhenAttemptsAreUsedUp(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, retryable(f.job("never", func(_ context.Context, j *funcJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(true)})
		}), 2))
		f.drain(q)
		info := f.info(q, "never")
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.Equal(f, []string{"attempt 1 to enqueue retrying job: job has reached its maximum attempt limit"}, info.Status.Errors)
	})
}

func TestErrorsThatAreNotRetried(t *testing.T) {
	for name, fail := range map[string]func(*funcJob){
		"error":         func(j *funcJob) { j.AddError(errors.New("no")) },
		"non-retryable": func(j *funcJob) { j.AddRetryableError(fmt.Errorf("wrapped: %w", amboy.NonRetryable(errors.New("no")))) },
		"non-retryable first": func(j *funcJob) {
			j.AddRetryableError(amboy.NonRetryable(errors.New("no")))
			j.AddRetryableError(errors.New("yes"))
		},
		"non-retryable last": func(j *funcJob) {
			j.AddRetryableError(errors.New("yes"))
			j.AddError(amboy.NonRetryable(errors.New("no")))
		},
		"non-retryable panic": func(*funcJob) { panic(amboy.NonRetryable(errors.New("no"))) },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				q := f.start(options{})
				f.put(q, retryable(f.job("once", func(_ context.Context, j *funcJob) { fail(j) }), 5))
				f.drain(q)
				assert.Equal(f, amboy.StateFailed, f.state(q, "once"))
				assert.Equal(f, 0, f.info(q, "once").Retry.CurrentAttempt)
			})
		})
	}
}

func TestARetryOfAJobThatIsNotRetryableIsIgnored(t *testing.T) {
	for name, fail := range map[string]func(*funcJob){
		"error":     func(j *funcJob) { j.AddRetryableError(errors.New("no")) },
		"no error":  func(j *funcJob) { j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(true)}) },
		"panic":     func(*funcJob) { panic("no") },
		"completed": func(j *funcJob) { j.AddRetryableError(errors.New("no")); j.MarkComplete() },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				var ran journal
				q := f.start(options{})
				f.put(q, f.job("once", func(_ context.Context, j *funcJob) { ran.add(j.ID()); fail(j) }))
				f.drain(q)
				assert.Equal(f, []string{"once"}, ran.all())
				info := f.info(q, "once")
				assert.True(f, info.State.IsFinal())
				assert.True(f, info.Retry.NeedsRetry, "the flag is not changed")
				stats := q.Stats(f.ctx)
				assert.Equal(f, []int{1, 1, 0}, []int{stats.Total, stats.Completed, stats.Retrying})
			})
		})
	}
}

func TestAJobCancelsItself(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, retryable(f.job("enough", func(_ context.Context, j *funcJob) {
			j.AddRetryableError(fmt.Errorf("giving up: %w", &amboy.CancelError{Err: errors.New("the order is gone")}))
			j.AddRetryableError(errors.New("closing"))
		}), 5))
		f.drain(q)
		info := f.info(q, "enough")
		assert.Equal(f, amboy.StateCanceled, info.State)
		assert.Equal(f, 0, info.Retry.CurrentAttempt)
		assert.Equal(f, []string{"giving up: the job canceled itself: the order is gone", "closing"}, info.Status.Errors)
	})
}

// policyJob is a job with its own retry policy and retention.
type policyJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	Key      int64 `bson:"key" json:"key"`
}

func (j *policyJob) RetryPolicy() amboy.RetryPolicy {
	return retry.Exponential{Base: 20 * time.Millisecond, Factor: 2}
}

func (j *policyJob) Retention() amboy.Retention {
	return amboy.Retention{Failed: amboy.KeepForever, Succeeded: time.Minute}
}

func (j *policyJob) Run(ctx context.Context) {
	if run, ok := functions.Load(j.Key); ok {
		run.(func(context.Context, amboy.Job))(ctx, j)
	}
}

const policyJobType = "suite-policy"

func init() {
	registry.AddJobType(policyJobType, func() amboy.Job { return newPolicyJob() })
}

func newPolicyJob() *policyJob {
	return &policyJob{Base: job.Base{JobType: amboy.JobType{Name: policyJobType, Version: 1}}}
}

// policyJob returns a policyJob that runs a function.
func (f *fixture) policyJob(id string, run func(context.Context, amboy.Job)) *policyJob {
	j := newPolicyJob()
	j.SetID(id)
	j.Key = lastKey.Add(1)
	functions.Store(j.Key, run)
	f.Cleanup(func() { functions.Delete(j.Key) })
	return j
}

// TestDelaysOfRetries checks which setting decides how long the next attempt waits.
func TestDelaysOfRetries(t *testing.T) {
	plain := func(run func(context.Context, amboy.Job)) func(context.Context, *funcJob) {
		return func(ctx context.Context, j *funcJob) { run(ctx, j) }
	}
	ofQueue := retry.Fixed{Wait: 60 * time.Millisecond}
	failing := func(f *fixture, starts *[]time.Time) func(context.Context, amboy.Job) {
		return func(_ context.Context, j amboy.Job) {
			*starts = append(*starts, f.now())
			if j.RetryInfo().CurrentAttempt < 2 {
				j.AddRetryableError(errors.New("not yet"))
			}
		}
	}
	waits := func(f *fixture, starts []time.Time, want ...time.Duration) {
		f.Helper()
		require.Len(f, starts, len(want)+1)
		for i := range want {
			got := starts[i+1].Sub(starts[i])
			if f.faked {
				assert.Equal(f, want[i], got, "wait %d", i)
			} else {
				assert.GreaterOrEqual(f, got, want[i], "wait %d", i)
			}
		}
	}
	setting := amboy.JobRetryOptions{Retryable: new(true), WaitUntil: new(40 * time.Millisecond)}
	for name, test := range map[string]struct {
		policy amboy.RetryPolicy
		make   func(*fixture, func(context.Context, amboy.Job)) amboy.Job
		want   time.Duration
		second time.Duration
	}{
		"nobody": {nil, func(f *fixture, run func(context.Context, amboy.Job)) amboy.Job {
			return retryable(f.job("j", plain(run)), 3)
		}, 0, 0},
		"queue": {ofQueue, func(f *fixture, run func(context.Context, amboy.Job)) amboy.Job {
			return retryable(f.job("j", plain(run)), 3)
		}, 60 * time.Millisecond, 60 * time.Millisecond},
		"setting before queue": {ofQueue, func(f *fixture, run func(context.Context, amboy.Job)) amboy.Job {
			j := f.job("j", plain(run))
			j.UpdateRetryInfo(setting)
			return j
		}, 40 * time.Millisecond, 40 * time.Millisecond},
		"job before setting": {ofQueue, func(f *fixture, run func(context.Context, amboy.Job)) amboy.Job {
			j := f.policyJob("j", run)
			j.UpdateRetryInfo(setting)
			return j
		}, 20 * time.Millisecond, 40 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				q := f.start(withPolicy(test.policy))
				var starts []time.Time
				f.put(q, test.make(f, failing(f, &starts)))
				f.drain(q)
				waits(f, starts, test.want, test.second)
				assert.Equal(f, amboy.StateSucceeded, f.state(q, "j"))
			})
		})
	}
}

func TestTheNextAttemptOfAJobIsScheduled(t *testing.T) {
	onThose(t, func(k kind) bool { return k.name == "local" }, func(f *fixture) {
		q := f.start(withPolicy(retry.Fixed{Wait: time.Hour}))
		j := f.job("later", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) })
		j.SetScopes([]string{"at put", "at start"})
		j.SetEnqueueScopes("at put")
		f.put(q, retryable(j, 2))
		free := f.job("free", func(context.Context, *funcJob) {})
		free.SetScopes([]string{"at start"})
		f.put(q, free)
		require.True(f, amboy.WaitJob(f.ctx, free, q), "the scope is free while the job waits")
		assert.Equal(f, amboy.StateScheduled, f.state(q, "later"))
		assert.Equal(f, 1, q.Stats(f.ctx).Pending)
		held := f.job("held", func(context.Context, *funcJob) {})
		held.SetScopes([]string{"at put"})
		held.SetEnqueueAllScopes(true)
		require.True(f, amboy.IsDuplicateJobScopeError(q.Put(f.ctx, held)), "the scope that was taken by Put stays")
		f.drain(q)
		assert.Equal(f, amboy.StateFailed, f.state(q, "later"))
		require.NoError(f, q.Put(f.ctx, held))
		f.drain(q)
	})
}

// brokenPolicy is a retry policy that panics, or ends its goroutine.
type brokenPolicy struct {
	RefusedValue any
	exits        bool
}

func (p brokenPolicy) Delay(int) time.Duration {
	if p.exits {
		runtime.Goexit()
	}
	panic("no idea")
}

// If the policy called runtime.Goexit, which a failed assertion does, the retry handler ended: no job of the queue was
// retried any more.
func TestABrokenRetryPolicyEndsTheJobOnly(t *testing.T) {
	for reason, policy := range map[string]brokenPolicy{
		"panic: no idea": {},
		"the goroutine ended before the call returned": {exits: true},
	} {
		onEach(t, func(f *fixture) {
			q := f.start(withPolicy(policy))
			fails := func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }
			for i := range 10 { // more than there are workers of the retry handler
				f.put(q, retryable(f.job(fmt.Sprint("job ", i), fails), 3))
			}
			f.drain(q)
			for i := range 10 {
				info := f.info(q, fmt.Sprint("job ", i))
				assert.Equal(f, amboy.StateFailed, info.State)
				assert.Equal(f, []string{"no"}, info.Status.Errors)
				require.Len(f, info.Status.Attempts, 2)
				assert.Contains(f, info.Status.Attempts[1].Error, "calling the retry policy: "+reason)
			}
		})
	}
}

func TestARetryAfterDispatchByEndsTheJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(withPolicy(retry.Fixed{Wait: time.Hour}))
		j := retryable(f.job("j", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }), 3)
		j.UpdateRetryInfo(amboy.JobRetryOptions{DispatchBy: new(time.Minute)})
		f.put(q, j)
		f.drain(q)
		info := f.info(q, "j")
		assert.Equal(f, amboy.StateFailed, info.State)
		require.Len(f, info.Status.Attempts, 2)
		assert.Contains(f, info.Status.Attempts[1].Error, "must not be after dispatch-by")
	})
}

func TestAJobChoosesItsRetention(t *testing.T) {
	onThose(t, func(k kind) bool { return k.faked && k.stored }, func(f *fixture) {
		q := f.start(options{})
		f.put(q,
			f.policyJob("succeeds", func(context.Context, amboy.Job) {}),
			f.policyJob("fails", func(_ context.Context, j amboy.Job) { j.AddError(errors.New("no")) }),
			f.job("as the queue says", func(context.Context, *funcJob) {}),
		)
		f.drain(q)
		there := func() (ids []string) {
			for info := range q.JobInfo(f.ctx) {
				ids = append(ids, info.ID)
			}
			return ids
		}
		assert.ElementsMatch(f, []string{"succeeds", "fails", "as the queue says"}, there())
		f.pass(q, time.Hour)
		assert.ElementsMatch(f, []string{"fails", "as the queue says"}, there())
		f.pass(q, amboy.DefaultKeepSucceeded)
		assert.ElementsMatch(f, []string{"fails"}, there())
	})
}

// pass lets time pass in a queue with fake time.
func (f *fixture) pass(q amboy.Queue, d time.Duration) {
	if q, ok := q.(interface{ Advance(time.Duration) }); ok {
		q.Advance(d)
		return
	}
	time.Sleep(d) // it takes none in a bubble
}
