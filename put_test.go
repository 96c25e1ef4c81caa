package amboy_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

var (
	errDuplicate = amboy.NewDuplicateJobError("job is taken")
	errScope     = amboy.NewDuplicateJobScopeError("scope is held")
)

func TestEnqueueUniqueJob(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		success bool
	}{
		{"new", nil, true},
		{"duplicate job", errDuplicate, true},
		{"wrapped duplicate job", fmt.Errorf("putting: %w", errDuplicate), true},
		{"collated duplicate jobs", amboy.CollateWriteErrors([]error{errDuplicate, errDuplicate}), true},
		{"duplicate job made of several errors", amboy.MakeDuplicateJobError(errors.Join(errPlain, errPlain)), true},
		{"duplicate with the existing job", &amboy.DuplicateJobError{JobID: "a", Reason: amboy.DuplicateUniqueKey}, true},
		{"duplicate scope with the existing job", &amboy.DuplicateJobError{JobID: "a", Reason: amboy.DuplicateEnqueueScope}, false},
		{"duplicate scope", errScope, false},
		{"duplicate scope, marked as a job too", amboy.MakeDuplicateJobError(errScope), false},
		{"duplicate job, marked as a scope too", amboy.MakeDuplicateJobScopeError(errDuplicate), false},
		{"plain", errPlain, false},
		{"plain beside a duplicate job", errors.Join(errDuplicate, errPlain), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := &fakeQueue{id: "q", putErrs: map[string]error{"a": test.err}}
			err := amboy.EnqueueUniqueJob(t.Context(), q, newJob("a"))
			if test.success {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, amboy.IsDuplicateJobScopeError(test.err), amboy.IsDuplicateJobScopeError(err))
		})
	}

	t.Run("names job and queue", func(t *testing.T) {
		q := &fakeQueue{id: "q", putErrs: map[string]error{"a": errPlain}}
		assert.EqualError(t, amboy.EnqueueUniqueJob(t.Context(), q, newJob("a")), `putting job "a" in queue "q": disk is full`)
	})
	t.Run("nil", func(t *testing.T) {
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, amboy.EnqueueUniqueJob(t.Context(), &fakeQueue{id: "q"}, nil), &invalid)
		assert.Equal(t, "job", invalid.Field)
	})
}

func TestEnqueueManyUniqueJobs(t *testing.T) {
	anotherPlain := errors.New("network is down")
	for _, test := range []struct {
		name string
		errs map[string]error
		put  []string
		// kept are the errors that stay, gone the errors that are removed.
		kept, gone []error
		scope      bool
	}{
		{name: "all new", put: []string{"a", "b", "c"}},
		{name: "one duplicate job", errs: map[string]error{"b": errDuplicate}, put: []string{"a", "c"}},
		{name: "all duplicate jobs", errs: map[string]error{"a": errDuplicate, "b": fmt.Errorf("putting: %w", errDuplicate), "c": errDuplicate}, put: []string{}},
		{
			name: "one duplicate scope", errs: map[string]error{"b": errScope}, put: []string{"a", "c"},
			kept: []error{errScope}, scope: true,
		},
		{
			name: "duplicate job and scope", errs: map[string]error{"a": errDuplicate, "b": errScope}, put: []string{"c"},
			kept: []error{errScope}, gone: []error{errDuplicate}, scope: true,
		},
		{
			name: "duplicate job and plain", errs: map[string]error{"a": errDuplicate, "b": errPlain}, put: []string{"c"},
			kept: []error{errPlain}, gone: []error{errDuplicate},
		},
		{
			name: "all kinds", errs: map[string]error{"a": errDuplicate, "b": errScope, "c": errPlain}, put: []string{},
			kept: []error{errScope, errPlain}, gone: []error{errDuplicate},
		},
		{
			name: "several plain", errs: map[string]error{"a": anotherPlain, "b": errDuplicate, "c": errPlain}, put: []string{},
			kept: []error{anotherPlain, errPlain}, gone: []error{errDuplicate},
		},
		{
			name: "nested", errs: map[string]error{
				"a": amboy.CollateWriteErrors([]error{errDuplicate, errScope}),
				"b": fmt.Errorf("putting: %w", errors.Join(errDuplicate, errDuplicate)),
			}, put: []string{"c"},
			kept: []error{errScope}, gone: []error{errDuplicate}, scope: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := &fakeQueue{id: "q", putErrs: test.errs}
			err := amboy.EnqueueManyUniqueJobs(t.Context(), q, []amboy.Job{newJob("a"), newJob("b"), newJob("c")})
			assert.Equal(t, test.put, q.ids())
			if len(test.kept) == 0 {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, `"q"`)
			for _, kept := range test.kept {
				require.ErrorIs(t, err, kept)
			}
			for _, gone := range test.gone {
				require.NotErrorIs(t, err, gone)
				assert.NotContains(t, err.Error(), gone.Error())
			}
			assert.Equal(t, test.scope, amboy.IsDuplicateJobScopeError(err))
			assert.Equal(t, test.scope, amboy.IsDuplicateJobError(err))
		})
	}

	t.Run("none", func(t *testing.T) {
		assert.NoError(t, amboy.EnqueueManyUniqueJobs(t.Context(), &fakeQueue{}, nil))
	})
}

// jobsOf returns a closed channel that holds jobs.
func jobsOf(jobs ...amboy.Job) <-chan amboy.Job {
	out := make(chan amboy.Job, len(jobs))
	for _, j := range jobs {
		out <- j
	}
	close(out)
	return out
}

func TestPopulateQueue(t *testing.T) {
	q := &fakeQueue{id: "q"}
	require.NoError(t, amboy.PopulateQueue(t.Context(), q, jobsOf(newJob("a"), newJob("b"), newJob("c"))))
	assert.Equal(t, []string{"a", "b", "c"}, q.ids())

	require.NoError(t, amboy.PopulateQueue(t.Context(), q, jobsOf()))
	assert.ErrorContains(t, amboy.PopulateQueue(t.Context(), q, nil), "must not be nil")
}

func TestPopulateQueueGoesOnAfterErrors(t *testing.T) {
	q := &fakeQueue{id: "q", putErrs: map[string]error{"b": errPlain, "d": errDuplicate}}
	err := amboy.PopulateQueue(t.Context(), q, jobsOf(newJob("a"), newJob("b"), nil, newJob("c"), newJob("d"), newJob("e")))
	assert.Equal(t, []string{"a", "c", "e"}, q.ids())
	require.ErrorIs(t, err, errPlain)
	require.ErrorIs(t, err, errDuplicate)
	require.ErrorContains(t, err, `putting job "b" in queue "q": disk is full`)
	require.ErrorContains(t, err, `putting job "d" in queue "q": job is taken`)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "job", invalid.Field)
	assert.False(t, amboy.IsDuplicateJobError(err), "the errors include others than duplicates")
}

func TestPopulateQueueErrorIsBounded(t *testing.T) {
	const count = 10_000
	for _, test := range []struct {
		name string
		// errs are those of some jobs; the others are duplicates.
		errs       map[int]error
		job, scope bool
		worst      error
	}{
		{name: "duplicate jobs", job: true, worst: errDuplicate},
		{name: "a late duplicate scope", errs: map[int]error{count / 2: errScope}, job: true, scope: true, worst: errScope},
		{name: "a late plain error", errs: map[int]error{count / 2: errPlain, count - 1: errScope}, worst: errPlain},
		{name: "an early plain error", errs: map[int]error{0: errPlain}, worst: errPlain},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := &fakeQueue{id: "q", putErrs: map[string]error{}}
			var jobs []amboy.Job
			for i := range count {
				id := strconv.Itoa(i)
				jobs = append(jobs, newJob(id))
				q.putErrs[id] = errDuplicate
				if err, ok := test.errs[i]; ok {
					q.putErrs[id] = err
				}
			}
			err := amboy.PopulateQueue(t.Context(), q, jobsOf(jobs...))
			require.ErrorIs(t, err, test.worst)
			require.ErrorContains(t, err, fmt.Sprintf("%d more errors", count-100))
			assert.Less(t, len(err.Error()), 10_000)
			assert.Equal(t, test.job, amboy.IsDuplicateJobError(err))
			assert.Equal(t, test.scope, amboy.IsDuplicateJobScopeError(err))
		})
	}
}

func TestPopulateQueueStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the service shuts down")
		ctx, cancel := context.WithCancelCause(t.Context())
		q := &fakeQueue{id: "q", putErrs: map[string]error{"b": errPlain}}
		jobs := make(chan amboy.Job)
		ended := make(chan error, 1)
		go func() { ended <- amboy.PopulateQueue(ctx, q, jobs) }()

		jobs <- newJob("a")
		jobs <- newJob("b")
		synctest.Wait()
		cancel(stop)
		err := <-ended
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, err, errPlain)
		assert.Equal(t, []string{"a"}, q.ids())

		full := jobsOf(newJob("c"))
		require.ErrorIs(t, amboy.PopulateQueue(ctx, q, full), stop)
		assert.Len(t, full, 1, "nothing is read once the context has ended")
	})
}

func TestPuttingInANilQueuePanics(t *testing.T) {
	jobs := make(chan amboy.Job)
	close(jobs)
	for name, err := range map[string]error{
		"EnqueueUniqueJob":      amboy.EnqueueUniqueJob(t.Context(), nil, newJob("one")),
		"EnqueueManyUniqueJobs": amboy.EnqueueManyUniqueJobs(t.Context(), nil, nil),
		"PopulateQueue":         amboy.PopulateQueue(t.Context(), nil, jobs),
	} {
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, err, &invalid, name)
		assert.Equal(t, "queue", invalid.Field, name)
	}
}

func TestUsingANilQueuePanics(t *testing.T) {
	require.ErrorContains(t, amboy.Use(nil), "must not be nil")
	_, _, err := amboy.Subscribe(nil, 1)
	require.ErrorContains(t, err, "must not be nil")
	require.ErrorContains(t, amboy.ResolveErrors(t.Context(), nil), "must not be nil")
}

func TestWaitingForANilQueuePanics(t *testing.T) {
	assert.False(t, amboy.Wait(t.Context(), nil))
	assert.False(t, amboy.WaitIntervalNum(t.Context(), nil, time.Second, 1))
	assert.False(t, amboy.WaitJob(t.Context(), newJob("one"), nil))
}
