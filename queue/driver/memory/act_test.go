package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

// The context ends during the action; another call continues from there.
func TestAnInterruptedActionCanBeContinued(t *testing.T) {
	const records = 2500
	d := newDriver(t, memory.Options{KeepFinished: records})
	for i := range records {
		insert(t, d, record(fmt.Sprint(i)))
	}
	notified := false
	defer d.Subscribe(func(driver.Change) { notified = true })()
	req := driver.ActRequest{Action: driver.Action{Kind: driver.Cancel, Reason: "too late"}, Limit: records}
	acted, err := d.Act(&endingContext{t.Context(), 2}, req)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, acted.Done, stats(t, d).Completed)
	assert.Positive(t, acted.Done)
	assert.Less(t, acted.Done, records)
	assert.True(t, notified)

	req.After = acted.Next
	rest, err := d.Act(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, driver.Acted{Done: records - acted.Done}, rest)
	canceled, err := d.Count(t.Context(), driver.Query{States: []amboy.JobState{amboy.StateCanceled}}, 2*records)
	require.NoError(t, err)
	assert.Equal(t, records, canceled)
}

// The action cancels more records than are kept.
func TestAnActionEndsMoreRecordsThanAreKept(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	for i := range 200 {
		insert(t, d, record(fmt.Sprint(i)))
	}
	acted, err := d.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 1000})
	require.NoError(t, err)
	assert.Equal(t, driver.Acted{Done: 200}, acted)
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	assert.Equal(t, []string{"190", "191", "192", "193", "194", "195", "196", "197", "198", "199"}, ids(page.Records))
}

// The test restarts a job that was claimed with a failed dependency, which runs again.
func TestRestartForgetsFailedEdges(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	insert(t, d, record("target"), record("job", func(r *driver.Record) {
		r.Dependency = &registry.DependencyInterchange{Edges: []string{"target"}}
	}))
	failed := func(r *driver.Record) { r.Status.ErrorCount = 1 }
	run(t, d, 1, failed)
	run(t, d, 1, failed)
	before := get(t, d, "job")
	require.Equal(t, []string{"target"}, before.Dependency.Failed)
	acted, err := d.Act(t.Context(), driver.ActRequest{
		Action: driver.Action{Kind: driver.Restart},
		Limit:  2,
	})
	require.NoError(t, err)
	require.Equal(t, driver.Acted{Done: 2}, acted)
	run(t, d, 1, func(*driver.Record) {})
	assert.Empty(t, claim(t, d, 1)[0].Dependency.Failed)
	assert.Equal(t, []string{"target"}, before.Dependency.Failed, "records that were handed out do not change")
}

// The record requests a retry, but a cancellation was requested while it ran.
func TestCanceledRecordIsNotRetried(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	insert(t, d, record("job", func(r *driver.Record) { r.RetryInfo.Retryable = true }), record("dependent", func(r *driver.Record) {
		r.Dependency = &registry.DependencyInterchange{Edges: []string{"job"}}
	}))
	running := claim(t, d, 1)[0]
	_, err := d.Act(t.Context(), driver.ActRequest{
		Query:  driver.Query{ID: "job"},
		Action: driver.Action{Kind: driver.Cancel, Reason: "too late"},
		Limit:  1,
	})
	require.NoError(t, err)
	done := ended(running)
	done.Status.ErrorCount, done.RetryInfo.NeedsRetry = 1, true
	require.NoError(t, complete(t.Context(), d, running, done))

	got := get(t, d, "job")
	assert.Equal(t, amboy.StateCanceled, driver.StateOf(got, time.Now()))
	assert.Equal(t, "too late", got.Status.Reason)
	assert.False(t, got.CancelRequested)
	require.ErrorIs(t, d.EndRetry(t.Context(), got), driver.ErrLeaseLost)
	assert.Equal(t, []string{"job"}, claim(t, d, 1)[0].Dependency.Failed)
	assert.True(t, done.RetryInfo.NeedsRetry, "records that were handed out do not change")
}

func TestInvalidActions(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	for message, req := range map[string]driver.ActRequest{
		"Kind must be one of":     {Action: driver.Action{Kind: "explode"}, Limit: 1},
		"it must be at least 1":   {Action: driver.Action{Kind: driver.Cancel}},
		"After must be the Next":  {Action: driver.Action{Kind: driver.Cancel}, Limit: 1, After: "nowhere"},
		`(is "")`:                 {Limit: 1},
		"invalid limit: it must ": {Action: driver.Action{Kind: driver.Delete}, Limit: -1},
	} {
		_, err := d.Act(t.Context(), req)
		require.ErrorContains(t, err, message)
	}
}
