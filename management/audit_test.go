package management_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func TestAudit(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofMore}, func(f *inspected) {
		f.ctx = management.WithActor(f.ctx, "ann")
		start := time.Now()
		_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Paused: new(true)})
		require.NoError(f, err)
		_, err = f.SetControl(f.ctx, f.name, management.ControlChange{})
		require.NoError(f, err)
		secret := json.RawMessage(`{"key":"hunter2"}`)
		_, err = f.CreateJob(f.ctx, management.NewJob{Queue: f.name, ID: "made", Type: "alpha", Args: secret})
		require.NoError(f, err)
		f.act("made", management.Action{Kind: management.Park, Reason: "later"})
		_, err = f.ActOn(f.ctx, f.name, "made", management.Action{Kind: management.Park})
		require.NoError(f, err)
		_, err = f.ActOn(f.ctx, f.name, "made", management.Action{Kind: management.Delete})
		require.Error(f, err)
		all := management.ActRequest{
			Action: management.Action{Kind: management.Cancel}, Limit: 10, DryRun: true,
			Filter: management.JobFilter{Queues: []string{f.name}, Types: []string{"alpha"}},
		}
		_, err = f.Act(f.ctx, all)
		require.NoError(f, err)
		all.DryRun = false
		acted, err := f.Act(f.ctx, all)
		require.NoError(f, err)

		want := []management.AuditEntry{
			{What: "cancel", Done: acted.Done, Skipped: acted.Skipped},
			{What: "delete", JobID: "made"},
			{What: "park", JobID: "made", Skipped: 1},
			{What: "park", JobID: "made", Done: 1},
			{What: "create", JobID: "made", Done: 1},
			{What: "control"},
		}
		page := management.PageRequest{Limit: 4}
		var got []management.AuditEntry
		for {
			found, err := f.Audit(f.ctx, page)
			require.NoError(f, err)
			got = append(got, found.Entries...)
			if found.Next == "" {
				break
			}
			page.Cursor = found.Next
		}
		require.Len(f, got, len(want))
		for n, entry := range got {
			assert.Equal(f, "ann", entry.Actor)
			assert.Equal(f, f.name, entry.Queue)
			assert.WithinRange(f, entry.Time, start.Add(-time.Second), time.Now().Add(time.Second))
			assert.NotContains(f, entry.Detail, "hunter2")
			assert.NotEmpty(f, entry.Detail)
			assert.Equal(f, entry.What == "delete", entry.Error != "", entry.Error)
			got[n].Time, got[n].Actor, got[n].Queue, got[n].Detail, got[n].Error = time.Time{}, "", "", "", ""
		}
		assert.Equal(f, want, got)
	})
}

func TestAuditIsBounded(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	var old []driver.Note
	for n := range management.MaxAudit + 100 {
		old = append(old, driver.Note{Kind: "audit", Key: fmt.Sprintf("1999-01-01T00:00:00.%09dZ x", n), Value: []byte("{}"), Until: inAnHour()})
	}
	require.NoError(t, store.Admin().Keep(t.Context(), old...))
	count := func() int {
		notes, errNotes := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: "audit", Limit: 2 * management.MaxAudit})
		require.NoError(t, errNotes)
		return len(notes)
	}
	for n := 0; count() > management.MaxAudit; n++ {
		require.Less(t, n, 10_000)
		_, err = i.SetControl(t.Context(), "", management.ControlChange{Paused: new(n%2 == 0)})
		require.NoError(t, err)
	}
	page, err := i.Audit(t.Context(), management.PageRequest{Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, "control", page.Entries[0].What, "the oldest are dropped")
}

// forgetful can't keep notes.
type forgetful struct{ driver.Driver }

var errForgetful = errors.New("there is no room")

func (forgetful) Keep(context.Context, ...driver.Note) error { return errForgetful }

func TestWhatIsNotRecordedIsAnError(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: forgetful{newMemory(t)}, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	require.NoError(t, q.Put(t.Context(), tonight("a", "alpha")))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	acted, err := i.ActOn(t.Context(), "", "a", management.Action{Kind: management.Cancel})
	require.ErrorIs(t, err, management.ErrNotRecorded)
	require.ErrorIs(t, err, errForgetful)
	assert.Equal(t, management.Acted{Done: 1}, acted)
	job, err := i.Job(t.Context(), "", "a")
	require.NoError(t, err)
	assert.Equal(t, amboy.StateCanceled, job.State)
}
