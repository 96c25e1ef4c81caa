package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
)

var load = job.Define("batch-load", 1, func(context.Context, string) error { return nil })

func newJob(t testing.TB, id string) amboy.Job {
	t.Helper()
	j, err := load.New(id, job.ID(id))
	require.NoError(t, err)
	return j
}

func newBatch(t testing.TB, id string) *batch.Batch {
	t.Helper()
	b, err := batch.New(id)
	require.NoError(t, err)
	return b
}

// untaggable is a job without SetTags.
type untaggable struct{ amboy.Job }

// stubborn is a dependency that always requires all other jobs to succeed.
type stubborn struct{ dependency.Manager }

func TestABatchHasAnID(t *testing.T) {
	assert.Equal(t, "import", newBatch(t, "import").ID())
	assert.NotEmpty(t, newBatch(t, "").ID())
	first, second := newBatch(t, ""), newBatch(t, "")
	assert.NotEqual(t, first.ID(), second.ID())
	newBatch(t, strings.Repeat("x", batch.MaxIDLength))
	_, err := batch.New(strings.Repeat("x", batch.MaxIDLength+1))
	var invalid *batch.InvalidError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "ID", invalid.Field)
}

func TestBadJobsAreRefused(t *testing.T) {
	stubbornJob := newJob(t, "stubborn")
	stubbornJob.SetDependency(stubborn{dependency.NewAlways()})
	scoped := newJob(t, "scoped")
	scoped.SetScopes([]string{""})
	ways := map[string]func(*batch.Batch, amboy.Job) error{
		"Add":       func(b *batch.Batch, j amboy.Job) error { return b.Add(newJob(t, "new"), j) },
		"OnSuccess": (*batch.Batch).OnSuccess,
		"OnEnd":     (*batch.Batch).OnEnd,
	}
	for _, test := range []struct {
		name  string
		job   amboy.Job
		field string
		ways  []string
	}{
		{"nil", nil, "job", []string{"Add", "OnSuccess", "OnEnd"}},
		{"an empty scope", scoped, "scope", []string{"Add", "OnSuccess", "OnEnd"}},
		{"an ID that is taken", newJob(t, "there"), "ID", []string{"Add", "OnSuccess", "OnEnd"}},
		{"no SetTags", untaggable{newJob(t, "untaggable")}, "tags", []string{"Add", "OnSuccess", "OnEnd"}},
		{"a dependency without a failure policy", stubbornJob, "dependency", []string{"OnEnd"}},
	} {
		for _, way := range test.ways {
			t.Run(way+"/"+test.name, func(t *testing.T) {
				b := newBatch(t, "import")
				require.NoError(t, b.Add(newJob(t, "there")))
				var invalid *amboy.InvalidJobError
				require.ErrorAs(t, ways[way](b, test.job), &invalid)
				assert.Equal(t, test.field, invalid.Field)

				q := amboytest.New(t)
				h, err := b.Put(t.Context(), q)
				require.NoError(t, err)
				progress, err := h.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, progress.Total, "nothing was added")
			})
		}
	}
}

func TestABatchIsBounded(t *testing.T) {
	b := newBatch(t, "import")
	for i := range batch.MaxAfter {
		require.NoError(t, b.OnEnd(newJob(t, fmt.Sprint("end", i))))
	}
	var invalid *batch.InvalidError
	for _, add := range []func(amboy.Job) error{b.OnSuccess, b.OnEnd} {
		require.ErrorAs(t, add(newJob(t, "too many")), &invalid)
		assert.Equal(t, batch.MaxAfter+1, invalid.Value)
	}

	jobs := make([]amboy.Job, batch.MaxJobs+1)
	for i := range jobs {
		jobs[i] = newJob(t, fmt.Sprint(i))
	}
	require.ErrorAs(t, b.Add(jobs...), &invalid)
	assert.Equal(t, batch.MaxJobs+1, invalid.Value)
	require.NoError(t, b.Add(jobs[1:]...))
	require.ErrorAs(t, b.Add(jobs[0]), &invalid)
}

func TestALargeBatch(t *testing.T) {
	b := newBatch(t, "import")
	for i := range batch.MaxJobs / 10 {
		require.NoError(t, b.Add(newJob(t, fmt.Sprint(i))))
	}
	require.NoError(t, b.OnSuccess(newJob(t, "success")))
	q := amboytest.New(t)
	h, err := b.Put(t.Context(), q)
	require.NoError(t, err)
	progress, err := h.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, batch.MaxJobs/10, progress.States[amboy.StateSucceeded])
	require.True(t, amboy.Wait(t.Context(), q))
	amboytest.RequireState(t, q, "success", amboy.StateSucceeded)
}

func TestNothingIsAddedAfterPut(t *testing.T) {
	b := newBatch(t, "import")
	_, err := b.Put(t.Context(), amboytest.New(t))
	require.NoError(t, err)
	var invalid *batch.InvalidError
	require.ErrorAs(t, b.Add(newJob(t, "late")), &invalid)
	require.ErrorAs(t, b.OnEnd(newJob(t, "late")), &invalid)
}

func TestForgottenJobsHaveEnded(t *testing.T) {
	q := amboytest.New(t)
	b := newBatch(t, "import")
	kept, err := load.New("kept", job.ID("kept"), job.Retention(amboy.Retention{Succeeded: amboy.KeepForever}))
	require.NoError(t, err)
	require.NoError(t, b.Add(newJob(t, "forgotten"), kept))
	h, err := b.Put(t.Context(), q)
	require.NoError(t, err)
	require.True(t, amboy.Wait(t.Context(), q))
	q.Advance(amboy.DefaultKeepSucceeded)
	progress, err := h.Progress(t.Context())
	require.NoError(t, err)
	assert.Equal(t, batch.Progress{Total: 2, Forgotten: 1, States: map[amboy.JobState]int{amboy.StateSucceeded: 1}}, progress)
	assert.True(t, progress.Done())
}

// A service that answered with the progress sent the names of Go fields.
func TestProgressAsJSON(t *testing.T) {
	text, err := json.Marshal(batch.Progress{Total: 3, Forgotten: 1, States: map[amboy.JobState]int{amboy.StateFailed: 2}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"total":3,"forgotten":1,"states":{"failed":2}}`, string(text))
}

func TestABatchNeedsAJobFinder(t *testing.T) {
	q := struct{ amboy.Queue }{amboytest.New(t)}
	_, err := newBatch(t, "import").Put(t.Context(), q)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = batch.Open(t.Context(), q, "import")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestABatchIsDistinguishedFromAnotherWithItsID(t *testing.T) {
	q := amboytest.New(t)
	b := newBatch(t, "import")
	_, err := load.Put(t.Context(), q, "x", job.ID("batch:import"))
	require.NoError(t, err)
	_, err = b.Put(t.Context(), q)
	assert.True(t, amboy.IsDuplicateJobError(err), "%v", err)
	_, err = batch.Open(t.Context(), q, "import")
	assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)
}

func TestANilQueueIsRefused(t *testing.T) {
	var invalid *amboy.InvalidJobError
	_, err := batch.Open(t.Context(), nil, "b")
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "queue", invalid.Field)
}
