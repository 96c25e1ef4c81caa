package management_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// selected lists the jobs of populate that each filter selects: first those that every kind
// of queue has, then those that only stored queues have.
var selected = map[management.StatusFilter][2][]string{
	management.Pending:       {{"blocked", "pending 1", "pending 2", "scheduled"}, {"parked"}},
	management.InProgress:    {{"running 1", "running 2"}, {"stale"}},
	management.Stale:         {{}, {"stale"}},
	management.Completed:     {{"done", "failed"}, {"retrying", "stale retrying"}},
	management.Retrying:      {{}, {"retrying", "stale retrying"}},
	management.StaleRetrying: {{}, {"stale retrying"}},
	management.All: {
		{"blocked", "done", "failed", "pending 1", "pending 2", "running 1", "running 2", "scheduled"},
		{"parked", "retrying", "stale", "stale retrying"},
	},
}

// alphas are the jobs of populate with type alpha.
var alphas = []string{"blocked", "done", "parked", "pending 1", "running 1"}

// selects returns the jobs of populate that a filter should select.
func (f *fixture) selects(filter management.StatusFilter) []string {
	ids := slices.Clone(selected[filter][0])
	if f.stored {
		ids = append(ids, selected[filter][1]...)
	}
	slices.Sort(ids)
	return ids
}

// lists returns the jobs that the manager returns for a filter.
func (f *fixture) lists(filter management.StatusFilter, jobTypes ...string) []string {
	f.Helper()
	ids := []string{}
	for _, jobType := range jobTypes {
		found, err := f.manager.JobIDsByState(f.ctx, jobType, filter)
		require.NoError(f, err)
		for _, id := range found {
			assert.Equal(f, f.group, id.Group)
			ids = append(ids, id.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestFilters(t *testing.T) {
	assert.Len(t, management.ValidStatusFilters(), len(selected))
	onAll(t, func(f *fixture) {
		f.populate()
		for _, filter := range management.ValidStatusFilters() {
			want := f.selects(filter)
			assert.Equal(f, want, f.lists(filter, "alpha", "beta"), filter)
			isAlpha := func(id string) bool { return slices.Contains(alphas, id) }
			assert.Equal(f, slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !isAlpha(id) }), f.lists(filter, "alpha"), filter)

			var counts []management.JobTypeCount
			for _, jobType := range []string{"alpha", "beta"} {
				n := len(slices.DeleteFunc(slices.Clone(want), func(id string) bool { return isAlpha(id) != (jobType == "alpha") }))
				if n > 0 {
					counts = append(counts, management.JobTypeCount{Type: jobType, Group: f.group, Count: n})
				}
			}
			got, err := f.manager.JobStatus(f.ctx, filter)
			require.NoError(f, err)
			assert.NotNil(f, got)
			assert.ElementsMatch(f, counts, got, filter)
			assert.IsNonDecreasing(f, typesOf(got))
			assert.Empty(f, f.lists(filter, "unknown"))
		}
	})
}

func typesOf(counts []management.JobTypeCount) []string {
	types := []string{""}
	for _, count := range counts {
		types = append(types, count.Type)
	}
	return types
}

// TestCompleteJobs completes the jobs that each filter selects, and no others.
func TestCompleteJobs(t *testing.T) {
	for _, filter := range management.ValidStatusFilters() {
		t.Run(string(filter), func(t *testing.T) {
			onEach(t, func(f *fixture) {
				f.populate()
				f.pause()
				before := f.infos()
				require.NoError(f, f.manager.CompleteJobs(f.ctx, filter))
				chosen := f.selects(filter)
				for id, info := range f.infos() {
					if slices.Contains(chosen, id) {
						assert.True(f, info.State.IsFinal(), "%s is %s", id, info.State)
					} else if id != "blocked" { // its scope may have been released
						assert.Equal(f, before[id].State, info.State, id)
					}
				}
				require.NoError(f, f.manager.CompleteJobs(f.ctx, filter), "the second call must change nothing")
			})
		})
	}
}

func TestCompleteJobsByType(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.populate()
		require.NoError(f, f.manager.CompleteJobsByType(f.ctx, management.Pending, "beta"))
		assert.Equal(f, amboy.StateSucceeded, f.state("pending 2"))
		assert.Equal(f, amboy.StateSucceeded, f.state("scheduled"))
		assert.Equal(f, amboy.StatePending, f.state("pending 1"))
		assert.Equal(f, amboy.StateRunning, f.state("running 2"))
	})
}

func TestCompleteJobsByPattern(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.populate()
		require.NoError(f, f.manager.CompleteJobsByPattern(f.ctx, management.Pending, `.*ending \d|r.*`))
		assert.Equal(f, amboy.StateSucceeded, f.state("pending 1"))
		assert.Equal(f, amboy.StateSucceeded, f.state("pending 2"))
		assert.Equal(f, amboy.StateScheduled, f.state("scheduled"))
		assert.Equal(f, amboy.StateRunning, f.state("running 1"))
	})
}

func TestPatterns(t *testing.T) {
	for pattern, want := range map[string][]string{
		`job`:                 {},
		`job 1`:               {"job 1"},
		`job .`:               {"job 1", "job 2"},
		`job .*`:              {"job 1", "job 2", "job 10"},
		`job|job 2`:           {"job 2"},
		`^job 1$`:             {"job 1"},
		`(?i)JOB 1`:           {"job 1"},
		`\Qjob 1`:             {"job 1"},
		`j.*?`:                {"job 1", "job 2", "job 10"},
		`.*`:                  {"job 1", "job 2", "job 10"}, // a dot does not match a line break
		`(?s).*`:              {"job 1", "job 2", "job 10", "a\nb"},
		`(a|a|a|a|a|a|a|a)*b`: {},
		`\pL+ 2`:              {"job 2"},
	} {
		t.Run(pattern, func(t *testing.T) {
			q := amboytest.New(t)
			for _, id := range []string{"job 1", "job 2", "job 10", "a\nb"} {
				require.NoError(t, q.Put(t.Context(), newTask(id, "alpha")))
			}
			require.NoError(t, management.NewQueueManager(q).CompleteJobsByPattern(t.Context(), management.All, pattern))
			var completed []string
			for j := range q.Results(t.Context()) {
				completed = append(completed, j.ID())
			}
			assert.ElementsMatch(t, want, completed)
		})
	}
}

// TestCompleteJob checks the completed jobs through every accessor.
func TestCompleteJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.populate()
		f.pause()
		for id, want := range map[string]amboy.JobState{
			"pending 1": amboy.StateSucceeded,
			"scheduled": amboy.StateSucceeded,
			"blocked":   amboy.StateSucceeded,
			"parked":    amboy.StateSucceeded,
			"running 1": amboy.StateSucceeded,
			"running 2": amboy.StateSucceeded,
			"stale":     amboy.StateSucceeded,
			"retrying":  amboy.StateFailed,
			"done":      amboy.StateSucceeded,
			"failed":    amboy.StateFailed,
		} {
			before, there := f.infos()[id]
			if !there {
				continue // this kind of queue has no such job
			}
			stats := f.queue.Stats(f.ctx)
			waited := make(chan bool, 1)
			go func() { waited <- amboy.WaitJob(f.ctx, newTask(id, "alpha"), f.queue) }()
			f.complete(id)
			assert.True(f, <-waited)
			f.isComplete(id, want)

			after := f.queue.Stats(f.ctx)
			assert.Equal(f, stats.Total, after.Total)
			if !before.State.IsFinal() && before.State != amboy.StateRetrying {
				assert.Equal(f, stats.Completed+1, after.Completed)
			}
			f.complete(id) // must change nothing
			f.isComplete(id, want)
		}
	})
}

// pause keeps free workers from claiming jobs.
func (f *fixture) pause() {
	f.Helper()
	q := f.queue
	if other, ok := q.(foreign); ok {
		q = other.Queue
	}
	if controller, ok := q.(amboy.QueueController); ok {
		require.NoError(f, controller.Pause(f.ctx))
	}
}

func (f *fixture) complete(id string) {
	f.Helper()
	require.NoError(f, f.manager.CompleteJob(f.ctx, id))
}

// isComplete checks a job through every accessor.
func (f *fixture) isComplete(id string, want amboy.JobState) {
	f.Helper()
	info := f.infos()[id]
	assert.Equal(f, want, info.State, "JobInfo")
	assert.True(f, info.Status.Completed)
	assert.False(f, info.Status.InProgress)
	assert.Empty(f, info.Status.Hold)
	assert.False(f, info.Time.End.IsZero())

	j, ok := f.queue.Get(f.ctx, id)
	require.True(f, ok, "Get")
	assert.Equal(f, want, amboy.NewJobInfo(j).State, "Get")

	var results []string
	for j := range f.queue.Results(f.ctx) {
		results = append(results, j.ID())
	}
	assert.Contains(f, results, id, "Results")
	f.wait(id)

	for _, filter := range []management.StatusFilter{management.Pending, management.InProgress, management.Retrying} {
		assert.NotContains(f, f.lists(filter, "alpha", "beta"), id, filter)
	}
	assert.Contains(f, f.lists(management.Completed, "alpha", "beta"), id)
}

// The result of the run is ignored, its scope is released, and it is not retried.
func TestCompleteRunningJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.hold("running", "alpha", "ledger")
		next, dependent := newTask("next", "alpha"), newTask("dependent", "alpha")
		next.SetScopes([]string{"ledger"})
		require.NoError(f, dependent.Dependency().AddEdge("running"))
		f.put(next, dependent)
		f.complete("running")
		f.wait("running", "next", "dependent")
		assert.Equal(f, amboy.StateSucceeded, f.state("next"))
		assert.Equal(f, amboy.StateSucceeded, f.state("dependent"))
		if f.stored {
			select {
			case cause := <-f.canceled:
				require.ErrorIs(f, cause, amboy.ErrLeaseLost)
			case <-f.ctx.Done():
				require.Fail(f, "the context of the run did not end")
			}
		}

		f.release()
		f.put(newTask("last 1", "alpha"), newTask("last 2", "alpha"))
		require.True(f, amboy.Wait(f.ctx, f.queue))
		info := f.infos()["running"]
		assert.True(f, info.State.IsFinal(), info.State)
		assert.Zero(f, info.Retry.CurrentAttempt)
		stats := f.queue.Stats(f.ctx)
		assert.Equal(f, 5, stats.Completed)
		assert.Equal(f, 5, stats.Total)
		if f.stored {
			assert.Equal(f, amboy.StateSucceeded, info.State)
			assert.Empty(f, info.Status.Errors, "the worker's write must be refused")
		}
	})
}

func TestCompleteJobReleasesDependents(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.hold("holder 1", "alpha", "ledger")
		f.hold("holder 2", "alpha")
		waits, dependent := newTask("waits", "alpha"), newTask("dependent", "alpha")
		waits.SetScopes([]string{"ledger"})
		waits.SetEnqueueAllScopes(false)
		require.NoError(f, dependent.Dependency().AddEdge("waits"))
		f.put(waits, dependent)
		f.complete("waits")
		f.complete("holder 2") // frees a worker if its context ends
		f.release()
		f.wait("dependent")
		assert.Equal(f, amboy.StateSucceeded, f.state("dependent"))
	})
}

// TestCompleteRetrying completes a job that has errors: jobs that depend on its success do
// not run.
func TestCompleteRetrying(t *testing.T) {
	onEach(t, func(f *fixture) {
		if !f.stored {
			f.Skip("no jobs await a retry")
		}
		f.hold("running 1", "alpha")
		f.hold("running 2", "alpha")
		j := newTask("retrying", "beta")
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		j.SetScopes([]string{"ledger"})
		j.SetEnqueueAllScopes(true)
		f.put(j)
		f.askForRetry(f.claim("retrying"))
		strict, lenient := newTask("strict", "alpha"), newTask("lenient", "alpha")
		anyEnd := dependency.MakeAlways()
		anyEnd.FailurePolicy = dependency.RunOnFailure
		lenient.SetDependency(&anyEnd)
		for _, dependent := range []*task{strict, lenient} {
			require.NoError(f, dependent.Dependency().AddEdge("retrying"))
		}
		f.put(strict, lenient)
		f.complete("retrying")
		f.release()
		f.wait("strict", "lenient")
		assert.Equal(f, amboy.StateFailed, f.state("strict"))
		assert.Equal(f, amboy.StateSucceeded, f.state("lenient"))
		scoped := newTask("scoped", "beta")
		scoped.SetScopes([]string{"ledger"})
		scoped.SetEnqueueAllScopes(true)
		f.put(scoped)
		f.wait("scoped")
	})
}

// TestCompleteJobOfUnknownType completes a job that no process here can decode.
func TestCompleteJobOfUnknownType(t *testing.T) {
	onEach(t, func(f *fixture) {
		if !f.stored {
			f.Skip("jobs by reference always have a known type")
		}
		r, err := f.store().Driver().Get(f.ctx, f.group, "stranger")
		require.True(f, amboy.IsJobNotFoundError(err), "%v", r)
		f.hold("running 1", "alpha")
		f.hold("running 2", "alpha")
		f.put(newTask("stranger", "alpha"))
		r, err = f.store().Driver().Get(f.ctx, f.group, "stranger")
		require.NoError(f, err)
		changed := *r
		changed.Type = "of another version of the program"
		require.NoError(f, f.store().Driver().Save(f.ctx, &changed))
		f.complete("stranger")
		f.wait("stranger")
		assert.Equal(f, amboy.StateSucceeded, f.state("stranger"))
	})
}

// TestCompleteManyWhileTheyRun completes jobs while workers claim them.
func TestCompleteManyWhileTheyRun(t *testing.T) {
	const n = 60
	onEach(t, func(f *fixture) {
		var ran atomic.Int64
		jobs := make([]amboy.Job, n)
		for i := range jobs {
			jobs[i] = doing(f.T, fmt.Sprintf("job %d", i), "alpha", func(context.Context, *task) { ran.Add(1) })
		}
		var working sync.WaitGroup
		working.Go(func() { assert.NoError(f, f.queue.PutMany(f.ctx, jobs)) })
		for range 3 {
			working.Go(func() { assert.NoError(f, f.manager.CompleteJobs(f.ctx, management.All)) })
		}
		working.Wait()
		require.NoError(f, f.manager.CompleteJobs(f.ctx, management.All))
		require.True(f, amboy.Wait(f.ctx, f.queue))
		stats := f.queue.Stats(f.ctx)
		assert.Equal(f, n, stats.Completed)
		assert.LessOrEqual(f, ran.Load(), int64(n))
		assert.Len(f, f.lists(management.Completed, "alpha"), n)
		for _, info := range f.infos() {
			assert.Equal(f, amboy.StateSucceeded, info.State)
		}
	})
}

// A run may last longer than a lease would.
func TestJobByReferenceIsNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openLocal(t)
		j := doing(t, "long", "alpha", func(ctx context.Context, _ *task) { <-ctx.Done() })
		require.NoError(t, q.Put(t.Context(), j))
		time.Sleep(10 * amboy.LockTimeout)
		m := management.NewQueueManager(q)
		for _, filter := range []management.StatusFilter{management.Stale, management.StaleRetrying} {
			ids, err := m.JobIDsByState(t.Context(), "alpha", filter)
			require.NoError(t, err)
			assert.Empty(t, ids, filter)
			counts, err := m.JobStatus(t.Context(), filter)
			require.NoError(t, err)
			assert.Empty(t, counts, filter)
			require.NoError(t, m.CompleteJobs(t.Context(), filter))
			ids, err = m.JobIDsByState(t.Context(), "alpha", management.InProgress)
			require.NoError(t, err)
			assert.Len(t, ids, 1, "%s must complete nothing", filter)
		}
	})
}

// beforeComplete calls a function before each Complete.
type beforeComplete struct {
	driver.Driver
	before func()
}

func (d beforeComplete) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	d.before()
	return d.Driver.Complete(ctx, completions)
}

// Jobs that change between the read and the write are completed if they are still selected.
func TestCompleteJobsThatChange(t *testing.T) {
	for filter, want := range map[management.StatusFilter]amboy.JobState{
		management.All:     amboy.StateSucceeded,
		management.Pending: amboy.StateRunning,
	} {
		t.Run(string(filter), func(t *testing.T) {
			store := newMemory(t)
			claim := sync.OnceFunc(func() {
				claimed, err := store.Claim(t.Context(), driver.ClaimRequest{
					Owner: "another process", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Hour,
				})
				require.NoError(t, err)
				require.Len(t, claimed.Records, 1)
			})
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: beforeComplete{store, claim}, CloseDriver: true, NumWorkers: 1})
			require.NoError(t, err)
			defer q.Close(t.Context())
			require.NoError(t, q.Put(t.Context(), newTask("one", "alpha")))
			require.NoError(t, management.NewQueueManager(q).CompleteJobs(t.Context(), filter))
			for info := range q.JobInfo(t.Context()) {
				assert.Equal(t, want, info.State)
			}
			require.NoError(t, management.NewQueueManager(q).CompleteJob(t.Context(), "one"))
			for info := range q.JobInfo(t.Context()) {
				assert.Equal(t, amboy.StateSucceeded, info.State)
			}
		})
	}
}

func TestInvalidArguments(t *testing.T) {
	long := make([]byte, management.MaxPatternLength+1)
	for i := range long {
		long[i] = 'a'
	}
	for name, test := range map[string]struct {
		call  func(context.Context, management.Manager) error
		field string
		value string
	}{
		"status": {func(ctx context.Context, m management.Manager) error {
			_, err := m.JobStatus(ctx, "done")
			return err
		}, "filter", "done"},
		"list, filter": {func(ctx context.Context, m management.Manager) error {
			_, err := m.JobIDsByState(ctx, "alpha", "")
			return err
		}, "filter", ""},
		"list, type": {func(ctx context.Context, m management.Manager) error {
			_, err := m.JobIDsByState(ctx, "", management.All)
			return err
		}, "type", ""},
		"one": {func(ctx context.Context, m management.Manager) error { return m.CompleteJob(ctx, "") }, "ID", ""},
		"all": {func(ctx context.Context, m management.Manager) error { return m.CompleteJobs(ctx, "ALL") }, "filter", "ALL"},
		"by type, filter": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByType(ctx, "x", "alpha")
		}, "filter", "x"},
		"by type, type": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByType(ctx, management.All, "")
		}, "type", ""},
		"by pattern, filter": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByPattern(ctx, "x", ".*")
		}, "filter", "x"},
		"no pattern": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByPattern(ctx, management.All, "")
		}, "pattern", ""},
		"malformed pattern": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByPattern(ctx, management.All, "a)|(?:b")
		}, "pattern", "a)|(?:b"},
		"large pattern": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByPattern(ctx, management.All, "(((a{100}){100}){100}){100}")
		}, "pattern", "(((a{100}){100}){100}){100}"},
		"long pattern": {func(ctx context.Context, m management.Manager) error {
			return m.CompleteJobsByPattern(ctx, management.All, string(long))
		}, "pattern", string(long[:100]) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			q := amboytest.New(t)
			require.NoError(t, q.Put(t.Context(), newTask("one", "alpha")))
			err := test.call(t.Context(), management.NewQueueManager(q))
			var argument *management.InvalidArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Equal(t, test.field, argument.Field)
			assert.Equal(t, test.value, argument.Value)
			assert.NotEmpty(t, argument.Rule)
			require.ErrorContains(t, err, argument.Rule)
			assert.Equal(t, 1, q.Stats(t.Context()).Pending, "nothing must change")

			require.ErrorAs(t, test.call(t.Context(), management.NewQueueManager(nil)), &argument, "a nil queue must not panic")
		})
	}
}

func TestCompleteJobOfAnUnknownID(t *testing.T) {
	onEach(t, func(f *fixture) {
		assert.True(f, amboy.IsJobNotFoundError(f.manager.CompleteJob(f.ctx, "nobody")))
		assert.True(f, amboy.IsJobNotFoundError(f.manager.CompleteJob(f.ctx, "one.pending")), "the job is in another queue")
	})
}

func TestEndedContextChangesNothing(t *testing.T) {
	onEach(t, func(f *fixture) {
		if !f.stored {
			f.Skip("jobs by reference are changed without blocking")
		}
		f.hold("running 1", "alpha")
		f.hold("running 2", "alpha")
		f.put(newTask("pending", "alpha"))
		require.ErrorIs(f, f.manager.CompleteJob(ended(), "pending"), context.Canceled)
		require.ErrorIs(f, f.manager.CompleteJobs(ended(), management.All), context.Canceled)
		_, err := f.manager.JobStatus(ended(), management.All)
		require.ErrorIs(f, err, context.Canceled)
		assert.Equal(f, amboy.StatePending, f.state("pending"))
	})
}

// The queue of package amboytest can be managed too.
func TestInlineQueue(t *testing.T) {
	q := amboytest.New(t)
	m := management.NewQueueManager(q)
	later := newTask("later", "alpha")
	later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: q.Now().Add(time.Hour)})
	require.NoError(t, q.Put(t.Context(), later))
	require.NoError(t, m.CompleteJob(t.Context(), "later"))
	assert.True(t, amboy.Wait(t.Context(), q))
	assert.Equal(t, 0, q.RunFor(t.Context(), 2*time.Hour))
}

func TestCompleteJobWakesLocalWaiters(t *testing.T) {
	for name, open := range map[string]func(*testing.T) amboy.Queue{"local": openLocal, "memory": openSerializable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t)
				later := newTask("later", "alpha")
				later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
				require.NoError(t, q.Put(t.Context(), later))
				begin := time.Now()
				var waiting sync.WaitGroup
				waiting.Go(func() { assert.True(t, amboy.WaitJob(t.Context(), later, q)) })
				waiting.Go(func() { assert.True(t, amboy.Wait(t.Context(), q)) })
				synctest.Wait()
				require.NoError(t, management.NewQueueManager(q).CompleteJob(t.Context(), "later"))
				waiting.Wait()
				assert.Zero(t, time.Since(begin))
			})
		})
	}
}

// A completed job is removed according to the retention of its queue.
func TestCompletedJobIsRemoved(t *testing.T) {
	q := amboytest.New(t) // keeps succeeded jobs for a day
	require.NoError(t, q.Put(t.Context(), newTask("one", "alpha")))
	require.NoError(t, management.NewQueueManager(q).CompleteJob(t.Context(), "one"))
	q.Advance(23 * time.Hour)
	_, there := q.Get(t.Context(), "one")
	assert.True(t, there)
	q.Advance(2 * time.Hour)
	_, there = q.Get(t.Context(), "one")
	assert.False(t, there)
}

func TestCompleteJobSendsAnEvent(t *testing.T) {
	q := amboytest.New(t)
	events, cancel, err := amboy.Subscribe(q, 10)
	require.NoError(t, err)
	defer cancel()
	require.NoError(t, q.Put(t.Context(), newTask("one", "alpha")))
	require.NoError(t, management.NewQueueManager(q).CompleteJob(t.Context(), "one"))
	assert.Equal(t, amboy.EventPut, (<-events).Kind)
	end := <-events
	assert.Equal(t, amboy.EventSucceeded, end.Kind)
	assert.Equal(t, "one", end.JobID)
	assert.Equal(t, "alpha", end.JobType.Name)
}
