package suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
)

func TestPrioritiesDecide(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		for priority, id := range []string{"low", "middle", "high"} {
			j := f.job(id, func(context.Context, *funcJob) { ran.add(id) })
			j.SetPriority(priority)
			f.put(q, j)
		}
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.Equal(f, []string{"high", "middle", "low"}, ran.all())
	})
}

func TestAJobExpires(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		j := f.job("late", func(context.Context, *funcJob) { assert.Fail(f, "an expired job must not run") })
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: f.now().Add(-time.Minute)})
		f.put(q, j)
		f.drain(q)
		assert.Equal(f, amboy.StateExpired, f.state(q, "late"))
	})
}

func TestJobsWaitForOthers(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		record := func(_ context.Context, j *funcJob) { ran.add(j.ID()) }
		first, failing := f.job("first", record), f.job("failing", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) })
		second, never, always := f.job("second", record), f.job("never", record), f.job("always", record)
		require.NoError(f, second.Dependency().AddEdge("first"))
		require.NoError(f, never.Dependency().AddEdge("failing"))
		require.NoError(f, always.Dependency().AddEdge("failing"))
		always.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
		f.put(q, second, never, always, failing, first)
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.ElementsMatch(f, []string{"first", "second", "always"}, ran.all())
		assert.Equal(f, amboy.StateFailed, f.state(q, "never"))
	})
}

func TestScopesHaveOneHolder(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		held := func(id string) *funcJob {
			j := f.job(id, func(context.Context, *funcJob) {})
			j.SetScopes([]string{"s"})
			j.SetEnqueueAllScopes(true)
			return j
		}
		f.put(q, held("a"))
		err := q.Put(f.ctx, held("b"))
		assert.True(f, amboy.IsDuplicateJobScopeError(err), "%v", err)
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		f.put(q, held("c"))
		f.drain(q)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "c"))
	})
}

func TestAnIDIsTaken(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, f.job("a", func(context.Context, *funcJob) {}))
		err := q.Put(f.ctx, f.job("a", func(context.Context, *funcJob) {}))
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		f.drain(q)
	})
}

func TestTheErrorOfADuplicateIsTheSameOnAllQueues(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		key := job.Unique(job.Uniqueness{Key: "nightly"})
		_, err := orders.Put(f.ctx, q, f.quick(), job.ID("first"), key, job.Scopes("disk"), job.EnqueueScopes(true))
		require.NoError(f, err)
		second, err := orders.New(f.quick(), job.ID("second"), job.Scopes("disk"), job.EnqueueScopes(true))
		require.NoError(f, err)
		unique, err := orders.New(f.quick(), job.ID("third"), key)
		require.NoError(f, err)
		uniqueKey, _ := unique.(amboy.UniqueJob).UniqueKey()
		held := amboy.DuplicateJobError{JobID: "second", Reason: amboy.DuplicateEnqueueScope, Value: "disk", ExistingID: "first"}
		_, errPut := orders.Put(f.ctx, q, f.quick(), job.ID("first"))
		for _, test := range []struct {
			err  error
			want amboy.DuplicateJobError
		}{
			{errPut, amboy.DuplicateJobError{JobID: "first", Reason: amboy.DuplicateID, Value: "first", ExistingID: "first"}},
			{q.Put(f.ctx, second), held},
			{q.PutMany(f.ctx, []amboy.Job{second}), held},
			{q.PutMany(f.ctx, []amboy.Job{second, unique}), held},
			{q.Put(f.ctx, unique), amboy.DuplicateJobError{JobID: "third", Reason: amboy.DuplicateUniqueKey, Value: uniqueKey, ExistingID: "first"}},
		} {
			var got *amboy.DuplicateJobError
			require.ErrorAs(f, test.err, &got)
			assert.Equal(f, test.want, *got)
		}
	})
}

// A receipt that depends on a charge was reported as an invalid job, when the charge was a
// duplicate, so that IsDuplicateJobError was false.
func TestADependentOfADuplicateMadeTheErrorOfPutManyAnInvalidJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		charge := func(id string) amboy.Job {
			j, err := orders.New(f.quick(), job.ID(id), job.Unique(job.Uniqueness{Key: "o1"}))
			require.NoError(f, err)
			return j
		}
		after := func(id string, dependencies ...string) amboy.Job {
			j, err := orders.New(f.quick(), job.ID(id), job.After(dependencies...))
			require.NoError(f, err)
			return j
		}
		f.put(q, after("receipt 1", "charge 1"), charge("charge 1"))

		err := q.PutMany(f.ctx, []amboy.Job{after("note", "receipt 2", "charge 1"), after("receipt 2", "charge 2"), charge("charge 2")})
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		var invalid *amboy.InvalidJobError
		assert.NotErrorAs(f, err, &invalid)
		var several interface{ Unwrap() []error }
		require.ErrorAs(f, err, &several)
		notPut := map[string]string{}
		for _, err := range several.Unwrap() {
			var e *amboy.DependencyNotPutError
			if errors.As(err, &e) {
				notPut[e.JobID] = e.DependencyID
			}
		}
		assert.Equal(f, map[string]string{"receipt 2": "charge 2", "note": "receipt 2"}, notPut)
		assert.Equal(f, 2, q.Stats(f.ctx).Total)

		err = q.PutMany(f.ctx, []amboy.Job{charge("charge 3"), after("receipt 3", "nobody")})
		assert.False(f, amboy.IsDuplicateJobError(err), "a dependency that is in no PutMany: %v", err)
		assert.ErrorAs(f, err, &invalid)
	})
}

func TestAJobIsRetried(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var attempts journal
		j := retryable(f.job("flaky", func(_ context.Context, j *funcJob) {
			attempts.add(f.now().Format(time.RFC3339Nano))
			if j.RetryInfo().CurrentAttempt < 2 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 5)
		j.UpdateRetryInfo(amboy.JobRetryOptions{WaitUntil: new(short)})
		f.put(q, j)
		f.drain(q)
		require.Len(f, attempts.all(), 3)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "flaky"))
		for i, at := range attempts.all()[1:] {
			before, err := time.Parse(time.RFC3339Nano, attempts.all()[i])
			require.NoError(f, err)
			after, err := time.Parse(time.RFC3339Nano, at)
			require.NoError(f, err)
			assert.GreaterOrEqual(f, after.Sub(before), short)
		}
	})
}

func TestAJobWithoutAttemptsLeftFails(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, retryable(f.job("hopeless", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }), 2))
		f.drain(q)
		info := f.info(q, "hopeless")
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.Equal(f, 1, info.Retry.CurrentAttempt)
	})
}

func TestAPanicIsAnError(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, f.job("panics", func(context.Context, *funcJob) { panic("no") }))
		f.drain(q)
		assert.Equal(f, amboy.StateFailed, f.state(q, "panics"))
	})
}
