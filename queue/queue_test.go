package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

func TestJobRunsAndEnds(t *testing.T) {
	onEach(t, 2, 10, func(t *testing.T, q amboy.Queue) {
		before := time.Now()
		put(t, q, newJob(t, "one", func(_ context.Context, j *funcJob) { j.Note = "was here" }))
		drain(t, q)

		got, ok := q.Get(within(t), "one")
		require.True(t, ok)
		assert.Equal(t, "was here", got.(*funcJob).Note)
		times := got.TimeInfo()
		assert.WithinRange(t, times.Created, before, time.Now())
		assert.False(t, times.Start.Before(times.Created))
		assert.False(t, times.End.Before(times.Start))
		status := got.Status()
		assert.True(t, status.Completed)
		assert.False(t, status.InProgress)
		assert.Equal(t, q.ID(), status.Owner)
		assert.Equal(t, 1, status.ModificationCount)

		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
		var results []string
		for j := range q.Results(within(t)) {
			results = append(results, j.ID())
		}
		assert.Equal(t, []string{"one"}, results)
		stats := q.Stats(within(t))
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, stats)
	})
}

func TestPutKeepsACreationTime(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		created := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
		j := noop(t, "one")
		j.UpdateTimeInfo(amboy.JobTimeInfo{Created: created})
		put(t, q, j)
		drain(t, q)
		got, _ := q.Get(within(t), "one")
		assert.True(t, created.Equal(got.TimeInfo().Created))
	})
}

// TestJobThatIsPutAgainStartsAnew puts a job whose Completed flag was cleared. With the
// flag set, the job would not run.
func TestJobThatIsPutAgainStartsAnew(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		j := newJob(t, "one", func(_ context.Context, j *funcJob) {
			if j.Note == "" {
				j.AddError(errors.New("no luck"))
			}
		})
		require.Error(t, amboy.RunJob(t.Context(), j))
		j.Note = "ready"
		status := j.Status()
		status.Completed = false
		j.SetStatus(status)
		put(t, q, j)
		drain(t, q)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
		got, _ := q.Get(within(t), "one")
		assert.Len(t, got.Status().Attempts, 1, "the job keeps its history")
	})
}

func TestPriorityThenArrival(t *testing.T) {
	onEach(t, 1, 100, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		var order journal
		for _, c := range []struct {
			id       string
			priority int
		}{{"c", 0}, {"a", 5}, {"d", 0}, {"e", -1}, {"b", 5}} {
			j := recorded(t, &order, c.id)
			j.SetPriority(c.priority)
			put(t, q, j)
			assert.Equal(t, c.priority, infoOf(t, q, c.id).Priority)
		}
		release()
		drain(t, q)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, order.all())
	})
}

func TestScheduledJobWaitsForItsTime(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		begin := time.Now()
		var ran time.Duration
		j := newJob(t, "later", func(context.Context, *funcJob) { ran = time.Since(begin) })
		j.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: begin.Add(time.Hour)})
		put(t, q, j)
		assert.Equal(t, amboy.StateScheduled, infoOf(t, q, "later").State)
		assert.Equal(t, 1, q.Stats(t.Context()).Pending)

		time.Sleep(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, time.Hour, ran)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "later").State)
	})
}

func TestJobThatCannotStartInTimeExpires(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		j := newJob(t, "late", func(context.Context, *funcJob) { t.Error("ran after its dispatch-by time") })
		retryable(j, 3)
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, q, j)

		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, amboy.StatePending, infoOf(t, q, "late").State)
		time.Sleep(time.Second)
		synctest.Wait()

		info := infoOf(t, q, "late")
		assert.Equal(t, amboy.StateExpired, info.State)
		assert.True(t, info.Status.Completed)
		assert.Contains(t, fmt.Sprint(info.Status.Errors), "dispatch-by")
		stats := q.Stats(t.Context())
		assert.Equal(t, 1, stats.Running)
		assert.Equal(t, 1, stats.Completed)
		assert.Zero(t, stats.Pending)
	})
}

func TestScopeHasOneHolder(t *testing.T) {
	onEach(t, 8, 1000, func(t *testing.T, q amboy.Queue) {
		var holders [3]int // guarded only by the scopes
		for i := range 300 {
			scope := i % len(holders)
			j := newJob(t, fmt.Sprint("job", i), func(context.Context, *funcJob) { holders[scope]++ })
			j.SetScopes([]string{fmt.Sprint("scope", scope)})
			put(t, q, j)
		}
		drain(t, q)
		assert.Equal(t, [3]int{100, 100, 100}, holders)
	})
}

func TestHeldScopeBlocksOnlyItsOwnJobs(t *testing.T) {
	onEach(t, 2, 100, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		blocker.SetScopes([]string{"s"})
		put(t, q, blocker)
		<-started
		waiting := noop(t, "waiting")
		waiting.SetScopes([]string{"s"})
		put(t, q, waiting)
		other := make(chan struct{})
		put(t, q, newJob(t, "other", func(context.Context, *funcJob) { close(other) }))
		<-other

		info := infoOf(t, q, "waiting")
		assert.Equal(t, amboy.StateBlocked, info.State)
		assert.Contains(t, info.Status.Reason, `"s"`)
		assert.Equal(t, 1, q.Stats(within(t)).Blocked)
		release()
		drain(t, q)
	})
}

func TestEnqueueScopeIsHeldFromPutToEnd(t *testing.T) {
	onEach(t, 1, 100, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started

		first := noop(t, "first")
		first.SetScopes([]string{"a", "b"})
		first.SetEnqueueScopes("a")
		put(t, q, first)

		second := noop(t, "second")
		second.SetScopes([]string{"a"})
		second.SetEnqueueAllScopes(true)
		err := q.Put(within(t), second)
		assert.True(t, amboy.IsDuplicateJobScopeError(err), "%v", err)
		assert.True(t, amboy.IsDuplicateJobError(err))
		_, there := q.Get(within(t), "second")
		assert.False(t, there, "a failed Put left something behind")

		third := noop(t, "third") // b is not an enqueue scope of the first
		third.SetScopes([]string{"b"})
		third.SetEnqueueAllScopes(true)
		put(t, q, third)

		release()
		drain(t, q)
		put(t, q, second)
		drain(t, q)
	})
}

func TestDuplicateIDIsRefused(t *testing.T) {
	onEach(t, 1, 100, func(t *testing.T, q amboy.Queue) {
		put(t, q, noop(t, "one"))
		err := q.Put(within(t), noop(t, "one"))
		assert.True(t, amboy.IsDuplicateJobError(err), "%v", err)
		assert.False(t, amboy.IsDuplicateJobScopeError(err))
		require.NoError(t, amboy.EnqueueUniqueJob(within(t), q, noop(t, "one")))
		drain(t, q)
		err = q.Put(within(t), noop(t, "one"))
		assert.True(t, amboy.IsDuplicateJobError(err), "the ID of a finished job is taken: %v", err)
	})
}

func TestPutManyTriesAll(t *testing.T) {
	onEach(t, 2, 100, func(t *testing.T, q amboy.Queue) {
		put(t, q, noop(t, "b"))
		err := q.PutMany(within(t), []amboy.Job{noop(t, "a"), noop(t, "b"), noop(t, "c")})
		assert.True(t, amboy.IsDuplicateJobError(err))
		err = q.PutMany(within(t), []amboy.Job{noop(t, "d"), noop(t, "b"), noop(t, "")})
		require.Error(t, err)
		assert.False(t, amboy.IsDuplicateJobError(err), "one of the errors is of another kind")
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, err, &invalid)
		require.NoError(t, q.PutMany(within(t), nil))
		drain(t, q)
		assert.Equal(t, 4, q.Stats(within(t)).Completed)
	})
}

func TestBadJobsAreRefused(t *testing.T) {
	now := time.Now()
	var typedNil *funcJob
	for name, c := range map[string]struct {
		change func(*funcJob) amboy.Job
		field  string
	}{
		"nil":           {func(*funcJob) amboy.Job { return nil }, "job"},
		"typed nil":     {func(*funcJob) amboy.Job { return typedNil }, "job"},
		"empty ID":      {func(j *funcJob) amboy.Job { j.SetID(""); return j }, "ID"},
		"over-long ID":  {func(j *funcJob) amboy.Job { j.SetID(strings.Repeat("x", amboy.MaxIDLength+1)); return j }, "ID"},
		"version":       {func(j *funcJob) amboy.Job { j.JobType.Version = -1; return j }, "type version"},
		"empty scope":   {func(j *funcJob) amboy.Job { j.SetScopes([]string{"a", ""}); return j }, "scope"},
		"attempts":      {func(j *funcJob) amboy.Job { return retryable(j, -1) }, "max attempts"},
		"negative time": {func(j *funcJob) amboy.Job { j.SetTimeInfo(amboy.JobTimeInfo{MaxTime: -1}); return j }, "max time"},
		"never in time": {func(j *funcJob) amboy.Job {
			j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: now.Add(time.Hour), DispatchBy: now})
			return j
		}, "wait-until"},
		"unknown edge": {func(j *funcJob) amboy.Job {
			require.NoError(t, j.Dependency().AddEdge("nobody"))
			return j
		}, "dependency edge"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
				j := c.change(noop(t, "bad"))
				err := q.Put(within(t), j)
				var invalid *amboy.InvalidJobError
				require.ErrorAs(t, err, &invalid)
				assert.Equal(t, c.field, invalid.Field)
				assert.NotEmpty(t, invalid.Rule)
				assert.Zero(t, q.Stats(within(t)).Total)
				if !amboy.IsNilJob(j) {
					assert.True(t, j.TimeInfo().Created.IsZero(), "a refused job was changed")
				}
			})
		})
	}
}

func TestIDsOf1024BytesAreAccepted(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, noop(t, strings.Repeat("x", 1024)))
		drain(t, q)
	})
}

func TestDependentsRunInOrder(t *testing.T) {
	onEach(t, 4, 100, func(t *testing.T, q amboy.Queue) {
		var order journal
		last, middle, first := recorded(t, &order, "last"), recorded(t, &order, "middle"), recorded(t, &order, "first")
		require.NoError(t, last.Dependency().AddEdge("middle"))
		require.NoError(t, last.Dependency().AddEdge("first"))
		require.NoError(t, middle.Dependency().AddEdge("first"))
		require.NoError(t, q.PutMany(within(t), []amboy.Job{last, middle, first}))
		drain(t, q)
		assert.Equal(t, []string{"first", "middle", "last"}, order.all())
	})
}

func TestDependentIsBlockedUntilTheOtherEnds(t *testing.T) {
	onEach(t, 4, 100, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		dependent := noop(t, "dependent")
		require.NoError(t, dependent.Dependency().AddEdge("blocker"))
		put(t, q, dependent)
		info := infoOf(t, q, "dependent")
		assert.Equal(t, amboy.StateBlocked, info.State)
		assert.Contains(t, info.Status.Reason, "depends on")
		assert.Equal(t, 1, q.Stats(within(t)).Blocked)
		release()
		drain(t, q)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "dependent").State)
	})
}

func TestDependencyThatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		policy dependency.FailurePolicy
		want   amboy.JobState
	}{
		"fails the dependent by default":    {dependency.FailOnFailure, amboy.StateFailed},
		"runs it if its dependency says so": {dependency.RunOnFailure, amboy.StateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, 2, 100, func(t *testing.T, q amboy.Queue) {
				failing := newJob(t, "failing", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no luck")) })
				ran := false
				dependent := newJob(t, "dependent", func(context.Context, *funcJob) { ran = true })
				require.NoError(t, dependent.Dependency().AddEdge("failing"))
				dependent.Dependency().(dependency.FailureChooser).SetOnFailure(c.policy)
				require.NoError(t, q.PutMany(within(t), []amboy.Job{dependent, failing}))
				drain(t, q)
				info := infoOf(t, q, "dependent")
				assert.Equal(t, c.want, info.State)
				assert.Equal(t, c.want == amboy.StateSucceeded, ran)
				if !ran {
					assert.Contains(t, fmt.Sprint(info.Status.Errors), "failing")
				}
			})
		})
	}
}

// checkDependency returns a dependency manager whose state is that of decide.
func checkDependency(t *testing.T, decide dependency.CheckFunc) dependency.Manager {
	t.Helper()
	name := fmt.Sprint("check-", lastKey.Add(1))
	dependency.RegisterCheck(name, func() dependency.CheckFunc { return decide })
	return dependency.NewCheckManager(name)
}

func TestDependencyStates(t *testing.T) {
	for name, c := range map[string]struct {
		decide dependency.CheckFunc
		want   amboy.JobState
		runs   bool
	}{
		"ready":      {func([]string) dependency.State { return dependency.Ready }, amboy.StateSucceeded, true},
		"passed":     {func([]string) dependency.State { return dependency.Passed }, amboy.StateSucceeded, false},
		"unresolved": {func([]string) dependency.State { return dependency.Unresolved }, amboy.StateFailed, false},
		"invalid":    {func([]string) dependency.State { return 42 }, amboy.StateFailed, false},
		"panics":     {func([]string) dependency.State { panic("no idea") }, amboy.StateFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
				ran := false
				j := newJob(t, "one", func(context.Context, *funcJob) { ran = true })
				j.SetDependency(checkDependency(t, c.decide))
				put(t, q, j)
				drain(t, q)
				info := infoOf(t, q, "one")
				assert.Equal(t, c.want, info.State)
				assert.Equal(t, c.runs, ran)
				if c.want == amboy.StateFailed {
					assert.Contains(t, fmt.Sprint(info.Status.Errors), "dependency")
				}
			})
		})
	}
}

func TestBlockedDependencyIsCheckedAgain(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		var asked atomic.Int64
		var open atomic.Bool
		j := noop(t, "one")
		j.SetDependency(checkDependency(t, func([]string) dependency.State {
			asked.Add(1)
			if open.Load() {
				return dependency.Ready
			}
			return dependency.Blocked
		}))
		put(t, q, j)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, amboy.StateBlocked, infoOf(t, q, "one").State)
		assert.Less(t, asked.Load(), int64(1000), "the dependency is checked every few seconds, not all the time")
		assert.Greater(t, asked.Load(), int64(500))
		open.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
	})
}

func TestCycleIsRefusedWithItsPath(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		self := noop(t, "self")
		require.NoError(t, self.Dependency().AddEdge("self"))
		var cycle *amboy.DependencyCycleError
		require.ErrorAs(t, q.Put(within(t), self), &cycle)
		assert.Equal(t, []string{"self", "self"}, cycle.Path)

		a, b, c, free := noop(t, "a"), noop(t, "b"), noop(t, "c"), noop(t, "free")
		require.NoError(t, a.Dependency().AddEdge("b"))
		require.NoError(t, b.Dependency().AddEdge("c"))
		require.NoError(t, c.Dependency().AddEdge("a"))
		err := q.PutMany(within(t), []amboy.Job{a, free, b, c})
		require.ErrorAs(t, err, &cycle)
		assert.Equal(t, []string{"a", "b", "c", "a"}, cycle.Path)
		assert.Contains(t, err.Error(), "a -> b -> c -> a")
		drain(t, q)
		assert.Equal(t, 1, q.Stats(within(t)).Total, "only the job outside the cycle was put")
	})
}

func TestPanicIsAnErrorOfTheJob(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, newJob(t, "bad", func(context.Context, *funcJob) { panic("at the disco") }), noop(t, "good"))
		drain(t, q)
		info := infoOf(t, q, "bad")
		assert.Equal(t, amboy.StateFailed, info.State)
		assert.False(t, info.Status.InProgress, "a job that panicked was left in progress")
		require.Len(t, info.Status.Attempts, 1)
		assert.Contains(t, info.Status.Attempts[0].Error, "at the disco")
		assert.Contains(t, info.Status.Attempts[0].Stack, "queue_test.go")
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "good").State, "the worker survives")
	})
}

func TestMaxTimeEndsTheContext(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		j := newJob(t, "slow", func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			j.AddError(context.Cause(ctx))
		})
		j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: 10 * time.Second})
		put(t, q, j)
		drain(t, q)
		info := infoOf(t, q, "slow")
		assert.Equal(t, 10*time.Second, info.Time.Duration())
		assert.Equal(t, amboy.StateFailed, info.State)
		assert.Contains(t, fmt.Sprint(info.Status.Errors), "maximum time of 10s")
	})
}

func TestFullQueueMakesPutWait(t *testing.T) {
	onEachFaked(t, 2, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		put(t, q, noop(t, "one"), noop(t, "two"))

		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		given := noop(t, "given up")
		given.SetScopes([]string{"s"})
		given.SetEnqueueAllScopes(true)
		begin := time.Now()
		require.ErrorIs(t, q.Put(short, given), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(begin))
		_, there := q.Get(t.Context(), "given up")
		assert.False(t, there)
		assert.True(t, amboy.IsDuplicateJobError(q.Put(t.Context(), noop(t, "one"))), "a duplicate does not wait for room")

		done := make(chan error, 1)
		go func() { done <- q.Put(t.Context(), noop(t, "three")) }()
		synctest.Wait()
		assert.Empty(t, done)
		release()
		require.NoError(t, <-done)
		given.SetTimeInfo(amboy.JobTimeInfo{})
		require.NoError(t, q.Put(t.Context(), given), "the scope of a Put that gave up is free")
		drain(t, q)
		assert.Equal(t, 5, q.Stats(t.Context()).Total)
	})
}

func TestWaitingPutEndsWithTheQueue(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, 1, 1)
				require.NoError(t, q.Start(t.Context()))
				blocker, started, release := holder(t, "blocker")
				defer release()
				put(t, q, blocker)
				<-started
				put(t, q, noop(t, "one"))
				done := make(chan error, 1)
				go func() { done <- q.Put(t.Context(), noop(t, "two")) }()
				synctest.Wait()
				go q.Close(t.Context())
				synctest.Wait()
				release()
				require.ErrorIs(t, <-done, amboy.ErrQueueClosed)
			})
		})
	}
}

func TestClosedQueueRefusesJobs(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		assert.True(t, q.Info().Started)
		put(t, q, noop(t, "one"))
		drain(t, q)
		q.Close(within(t))
		assert.False(t, q.Info().Started)
		require.ErrorIs(t, q.Put(within(t), noop(t, "two")), amboy.ErrQueueClosed)
		require.ErrorIs(t, q.Start(within(t)), amboy.ErrQueueClosed)
		assert.Nil(t, q.Next(within(t)))
		_, there := q.Get(within(t), "one")
		assert.True(t, there, "finished jobs can still be read")
		q.Close(within(t))
	})
}

func TestQueueEndsWithTheContextOfStart(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, 1, 10)
				ctx, cancel := context.WithCancel(t.Context())
				require.NoError(t, q.Start(ctx))
				cancel()
				synctest.Wait()
				require.ErrorIs(t, q.Put(t.Context(), noop(t, "one")), amboy.ErrQueueClosed)
				q.Close(t.Context())
			})
		})
	}
}

func TestStartIsNotRepeated(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		require.ErrorIs(t, q.Start(within(t)), amboy.ErrAlreadyStarted)
		require.ErrorIs(t, q.SetRunner(pool.NewLocalWorkers(1, q)), amboy.ErrAlreadyStarted)
	})
}

func TestPutBeforeStart(t *testing.T) {
	q := queue.NewLocalLimitedSize(1, 10)
	require.ErrorIs(t, q.Put(within(t), noop(t, "one")), amboy.ErrQueueNotStarted)
	q.Close(within(t))
}

func TestInvalidSizesAreRefused(t *testing.T) {
	for name, q := range map[string]amboy.Queue{
		"workers":  queue.NewLocalLimitedSize(0, 1),
		"capacity": queue.NewLocalLimitedSize(1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, q.Start(within(t)), "must be at least 1 (is 0)")
			require.ErrorContains(t, q.Put(within(t), noop(t, "one")), "must be at least 1 (is 0)")
			q.Close(within(t))
		})
		_, err := queue.NewLocalLimitedSizeSerializable(0, -1)
		require.ErrorContains(t, err, "NumWorkers must be at least 1 (is 0)")
		require.ErrorContains(t, err, "Capacity must be at least 1 (is -1)")
		_, err = queue.NewLocal(queue.LocalOptions{NumWorkers: 1, ForwardEdges: true})
		require.ErrorContains(t, err, "PutBeforeStart")
	}
}

func TestPriorityQueueIsFilledFirst(t *testing.T) {
	q := queue.NewLocalPriority(1, 10)
	defer q.Close(context.Background())
	var order journal
	for i, id := range []string{"low", "middle", "high"} {
		j := recorded(t, &order, id)
		j.SetPriority(i)
		put(t, q, j)
	}
	require.NoError(t, q.Start(t.Context()))
	drain(t, q)
	assert.Equal(t, []string{"high", "middle", "low"}, order.all())
}

func TestOrderedQueueTakesJobsInAnyOrder(t *testing.T) {
	q := queue.NewLocalOrdered(2, 10)
	defer q.Close(context.Background())
	var order journal
	second, first := recorded(t, &order, "second"), recorded(t, &order, "first")
	require.NoError(t, second.Dependency().AddEdge("first"))
	require.NoError(t, first.Dependency().AddEdge("zeroth"))
	put(t, q, second, first)
	require.ErrorContains(t, q.Start(t.Context()), `"zeroth"`)

	closing := noop(t, "zeroth")
	require.NoError(t, closing.Dependency().AddEdge("second"))
	var cycle *amboy.DependencyCycleError
	require.ErrorAs(t, q.Put(within(t), closing), &cycle)
	assert.Equal(t, []string{"zeroth", "second", "first", "zeroth"}, cycle.Path)

	put(t, q, recorded(t, &order, "zeroth"))
	require.NoError(t, q.Start(t.Context()))
	drain(t, q)
	assert.Equal(t, []string{"zeroth", "first", "second"}, order.all())
}

func TestAbortedJobEndsAsCanceled(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			q := build(t, 2, 10)
			require.NoError(t, q.SetRunner(pool.NewAbortablePool(2, q)))
			require.NoError(t, q.Start(t.Context()))
			defer q.Close(context.Background())
			j, started, release := holder(t, "one")
			defer release()
			j.SetScopes([]string{"s"})
			j.SetEnqueueAllScopes(true)
			put(t, q, retryable(j, 3))
			<-started
			runner, ok := q.Runner().(amboy.AbortableRunner)
			require.True(t, ok)
			require.NoError(t, runner.Abort(within(t), "one"))
			info := infoOf(t, q, "one")
			assert.Equal(t, amboy.StateCanceled, info.State)
			drain(t, q)
			next := noop(t, "next")
			next.SetScopes([]string{"s"})
			next.SetEnqueueAllScopes(true)
			put(t, q, next)
			drain(t, q)
		})
	}
}

// The time is fake: Close waits for one second after its context has ended, which a busy machine may exceed.
func TestHardStopHandsJobsBack(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		running := make(chan struct{})
		put(t, q, newJob(t, "one", func(ctx context.Context, _ *funcJob) {
			close(running)
			<-ctx.Done()
			// The job returns without an error, and marks itself complete as all jobs
			// do.
		}))
		<-running
		now, cancel := context.WithCancel(context.Background())
		cancel()
		q.Close(now)
		info := infoOf(t, q, "one")
		assert.Equal(t, amboy.StatePending, info.State)
		assert.Empty(t, info.Status.Errors, "an interrupted run is not an attempt")
		assert.Empty(t, info.Status.Attempts)
		assert.Equal(t, amboy.QueueStats{Pending: 1, Total: 1}, q.Stats(within(t)))
	})
}

func TestSoftStopLetsJobsEnd(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, 1, 10)
				require.NoError(t, q.Start(t.Context()))
				running := make(chan struct{})
				put(t, q, newJob(t, "running", func(ctx context.Context, j *funcJob) {
					close(running)
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						j.AddError(ctx.Err())
					}
				}), noop(t, "pending"))
				<-running
				q.Close(t.Context())
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "running").State)
				assert.Equal(t, amboy.StatePending, infoOf(t, q, "pending").State)
			})
		})
	}
}

func TestOldestFinishedJobsAreForgotten(t *testing.T) {
	onEach(t, 1, 3, func(t *testing.T, q amboy.Queue) {
		for _, id := range ids("job", 10) {
			put(t, q, noop(t, id))
			drain(t, q)
		}
		var results []string
		for j := range q.Results(within(t)) {
			results = append(results, j.ID())
		}
		assert.Equal(t, []string{"job7", "job8", "job9"}, results)
		assert.Equal(t, amboy.QueueStats{Completed: 10, Total: 10}, q.Stats(within(t)))
		_, there := q.Get(within(t), "job0")
		assert.False(t, there)
		put(t, q, noop(t, "job0"))
		drain(t, q)
	})
}

func TestStreamsOfManyJobs(t *testing.T) {
	onEach(t, 4, 2000, func(t *testing.T, q amboy.Queue) {
		for _, id := range ids("job", 1000) {
			put(t, q, noop(t, id))
		}
		drain(t, q)
		seen := map[string]bool{}
		for info := range q.JobInfo(within(t)) {
			seen[info.ID] = true
		}
		assert.Len(t, seen, 1000)

		// A reader that stops early costs nothing but the call.
		ctx, cancel := context.WithCancel(within(t))
		<-q.Results(ctx)
		cancel()
		<-q.JobInfo(within(t)) // Close ends a stream that is never read
	})
}

func TestWaitJob(t *testing.T) {
	onEach(t, 2, 10, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		done, one := make(chan bool), noop(t, "one")
		put(t, q, one)
		assert.True(t, amboy.WaitJob(within(t), one, q))
		go func() { done <- amboy.WaitJob(within(t), blocker, q) }()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		assert.False(t, amboy.WaitJob(ended, blocker, q))
		assert.False(t, amboy.Wait(ended, q))
		assert.False(t, amboy.WaitJob(within(t), noop(t, "nobody"), q))
		release()
		assert.True(t, <-done)
	})
}

func TestCompleteByHand(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		blocker, started, release := holder(t, "blocker")
		defer release()
		put(t, q, blocker)
		<-started
		put(t, q, newJob(t, "one", func(context.Context, *funcJob) { t.Error("ran after it was completed") }))
		j, ok := q.Get(within(t), "one")
		require.True(t, ok)
		require.NoError(t, q.Complete(within(t), j))
		require.ErrorIs(t, q.Complete(within(t), j), amboy.ErrLeaseLost, "the job has ended")
		assert.True(t, amboy.IsJobNotFoundError(q.Complete(within(t), noop(t, "nobody"))))
		require.Error(t, q.Complete(within(t), nil))
		release()
		drain(t, q)
		assert.Equal(t, 2, q.Stats(within(t)).Completed)
	})
}

func TestSaveAndRelease(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		j := noop(t, "one")
		put(t, q, j)
		drain(t, q)
		require.NoError(t, q.Save(within(t), jobOf(t, q, "one")))
		assert.True(t, amboy.IsJobNotFoundError(q.Save(within(t), noop(t, "nobody"))))
		require.Error(t, q.Save(within(t), nil))
		releaser := q.(amboy.JobReleaser)
		require.Error(t, releaser.Release(within(t), nil))
		require.ErrorIs(t, releaser.Release(within(t), j), amboy.ErrLeaseLost)
	})
}

func TestPoolOfTheWrongSizeKeepsTheQueueFromStarting(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			q := build(t, 1, 1)
			require.NoError(t, q.SetRunner(pool.NewLocalWorkers(0, q)))
			require.Error(t, q.Start(t.Context()))
			require.NoError(t, q.SetRunner(pool.NewLocalWorkers(1, q)))
			require.NoError(t, q.Start(t.Context()))
			q.Close(within(t))
			require.Error(t, q.SetRunner(nil))
		})
	}
}

// TestSaveRefusesAStaleCopy saves copies of a job that was claimed, and of a job that
// ended, since they were read.
func TestSaveRefusesAStaleCopy(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		running, release := make(chan struct{}), make(chan struct{})
		j := newJob(t, "one", func(context.Context, *funcJob) {
			close(running)
			<-release
		})
		put(t, q, j)
		<-running
		stale := newFuncJob()
		stale.SetID("one")
		stale.Note = "stale"
		err := q.Save(within(t), stale)
		close(release)
		require.ErrorIs(t, err, amboy.ErrLeaseLost)
		drain(t, q)
		require.ErrorIs(t, q.Save(within(t), stale), amboy.ErrLeaseLost)
		assert.Empty(t, jobOf(t, q, "one").(*funcJob).Note)
	})
}

// TestLockOfACopyIsSaved locks one of two copies of a job before the other.
func TestLockOfACopyIsSaved(t *testing.T) {
	q, err := queue.NewLocalLimitedSizeSerializable(1, 10)
	require.NoError(t, err)
	defer q.Close(context.Background())
	put(t, q, noop(t, "one"))
	first, second := jobOf(t, q, "one"), jobOf(t, q, "one")
	require.NoError(t, first.Lock("first", time.Minute))
	require.NoError(t, q.Save(t.Context(), first))
	require.NoError(t, second.Lock("second", time.Minute))
	require.ErrorIs(t, q.Save(t.Context(), second), amboy.ErrLeaseLost)
	first.Unlock("first", time.Minute)
	require.NoError(t, q.Save(t.Context(), first))
	assert.Equal(t, 2, jobOf(t, q, "one").Status().ModificationCount)
	require.NoError(t, q.Start(t.Context()))
	drain(t, q)
}

// TestARunningJobCanBeSavedAfterItsLeaseWasRenewed renews the lease often, and also lets
// the job lock itself.
func TestARunningJobCanBeSavedAfterItsLeaseWasRenewed(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		saved := make(chan error, 2)
		release := make(chan struct{})
		put(t, q, newJob(t, "one", func(ctx context.Context, j *funcJob) {
			<-release
			saved <- q.Save(ctx, j)
			_ = j.Lock(j.Status().Owner, time.Minute)
			saved <- q.Save(ctx, j)
		}))
		pass(time.Hour)
		close(release)
		drain(t, q)
		require.NoError(t, <-saved)
		require.NoError(t, <-saved)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
	})
}

// TestPutOnAFullQueueThatWasNotStartedFails checks that Put does not block for ever.
func TestPutOnAFullQueueThatWasNotStartedFails(t *testing.T) {
	serializable, err := queue.NewLocalLimitedSizeSerializable(1, 2)
	require.NoError(t, err)
	for name, q := range map[string]amboy.Queue{
		"priority":     queue.NewLocalPriority(1, 2),
		"ordered":      queue.NewLocalOrdered(1, 2),
		"serializable": serializable,
	} {
		t.Run(name, func(t *testing.T) {
			defer q.Close(context.Background())
			put(t, q, noop(t, "one"))
			err := q.PutMany(within(t), []amboy.Job{noop(t, "two"), noop(t, "three")})
			require.ErrorIs(t, err, amboy.ErrQueueNotStarted)
			require.ErrorContains(t, err, `job "three"`)
			assert.Equal(t, 2, q.Stats(t.Context()).Total)
			assert.True(t, amboy.IsDuplicateJobError(q.Put(within(t), noop(t, "one"))))
			require.NoError(t, q.Start(t.Context()))
			put(t, q, noop(t, "three"))
			drain(t, q)
		})
	}
}

// TestJobThatIsPutAsCompletedNeverRuns includes a job that ran in another queue.
func TestJobThatIsPutAsCompletedNeverRuns(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		ran := make(chan string, 10)
		run := func(_ context.Context, j *funcJob) { ran <- j.ID() }
		preset, failed, dependent := newJob(t, "preset", run), newJob(t, "failed", run), newJob(t, "dependent", run)
		created := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
		preset.SetStatus(amboy.JobStatusInfo{Completed: true, Owner: "me", ModificationCount: 3, ModificationTime: created})
		preset.SetTimeInfo(amboy.JobTimeInfo{Created: created, Start: created, End: created})
		failed.AddError(errors.New("as planned"))
		failed.MarkComplete()
		require.NoError(t, dependent.Dependency().(interface{ AddEdge(string) error }).AddEdge("preset"))
		put(t, q, preset, failed)
		put(t, q, dependent)
		drain(t, q)
		assert.Equal(t, []string{"dependent"}, received(ran))
		assert.Equal(t, amboy.QueueStats{Total: 3, Completed: 3}.String(), q.Stats(t.Context()).String())
		var results []string
		for j := range q.Results(t.Context()) {
			results = append(results, j.ID())
		}
		assert.ElementsMatch(t, []string{"preset", "failed", "dependent"}, results)
		info := infoOf(t, q, "preset")
		assert.Equal(t, amboy.StateSucceeded, info.State)
		assert.Equal(t, "me", info.Status.Owner)
		assert.Equal(t, 3, info.Status.ModificationCount)
		assert.True(t, info.Time.End.Equal(created), "the end is %s", info.Time.End)
		assert.Equal(t, amboy.StateFailed, infoOf(t, q, "failed").State)
		assert.False(t, infoOf(t, q, "failed").Time.End.IsZero())
		assert.True(t, amboy.IsDuplicateJobError(q.Put(t.Context(), noop(t, "preset"))))

		again := kinds["local"](t, 1, 10)
		require.NoError(t, again.Start(t.Context()))
		defer again.Close(context.Background())
		put(t, again, jobOf(t, q, "dependent"))
		drain(t, again)
		assert.Empty(t, received(ran), "the job has ended, and was put again")
	})
}

// received returns the values that a channel holds now.
func received(c chan string) (values []string) {
	for {
		select {
		case v := <-c:
			values = append(values, v)
		default:
			return values
		}
	}
}

// TestJobThatIsPutAsInProgressRunsOnceItsLockIsStale renews the lock once.
func TestJobThatIsPutAsInProgressRunsOnceItsLockIsStale(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		ran := make(chan string, 10)
		run := func(_ context.Context, j *funcJob) { ran <- j.ID() }
		j, waiting := newJob(t, "running", run), newJob(t, "waiting", run)
		j.SetScopes([]string{"scope"})
		waiting.SetScopes([]string{"scope"})
		j.SetStatus(amboy.JobStatusInfo{InProgress: true, Owner: "another process", ModificationCount: 3, ModificationTime: time.Now()})
		put(t, q, j, waiting)
		pass(time.Minute)
		stats := q.Stats(t.Context())
		assert.Equal(t, 1, stats.Running)
		assert.Equal(t, 1, stats.Pending, "the job waits for the scope of the other job")
		info := infoOf(t, q, "running")
		assert.Equal(t, amboy.StateRunning, info.State)
		assert.Equal(t, "another process", info.Status.Owner)
		assert.Equal(t, 3, info.Status.ModificationCount)

		owned := jobOf(t, q, "running")
		require.NoError(t, owned.Lock("another process", amboy.LockTimeout))
		require.NoError(t, q.Save(t.Context(), owned))
		pass(amboy.LockTimeout - time.Second)
		assert.Empty(t, received(ran), "the job was locked again")
		pass(amboy.LockTimeout / 2)
		drain(t, q)
		assert.Equal(t, []string{"running", "waiting"}, received(ran))
	})
}

// TestJobThatIsPutAsInProgressIsCompletedByItsOwner completes the job before its lock is
// stale.
func TestJobThatIsPutAsInProgressIsCompletedByItsOwner(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		j := newJob(t, "running", func(context.Context, *funcJob) { t.Error("it ran") })
		j.SetStatus(amboy.JobStatusInfo{InProgress: true, Owner: "another process", ModificationTime: time.Now()})
		put(t, q, j)
		require.NoError(t, q.Complete(t.Context(), jobOf(t, q, "running")))
		pass(2 * amboy.LockTimeout)
		drain(t, q)
		assert.Equal(t, 1, q.Stats(t.Context()).Completed)
	})
}
