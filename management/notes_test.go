package management_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// A note that can't be decoded is skipped, and the others are shown.
func TestNotesThatCannotBeDecodedAreSkipped(t *testing.T) {
	now := time.Now()
	bad := func(kind, key string) driver.Note {
		return driver.Note{Kind: kind, Key: key, Value: []byte("\xff{"), Until: inAnHour()}
	}
	i := newInspectorOfNotes(t,
		bad(activity.MinuteKind, activity.KeyOf(now)+" another"),
		bad(presence.ProcessKind, "another"),
		bad(presence.WorkersKind, presence.WorkersKey("")),
		bad(presence.ScheduleKind, "another"),
		bad("audit", "2000-01-01T00:00:00.000000000Z another"),
	)
	_, err := i.Activity(t.Context(), management.ActivityRequest{})
	require.NoError(t, err)
	processes, err := i.Processes(t.Context())
	require.NoError(t, err)
	assert.Len(t, processes, 1)
	queues, err := i.Queues(t.Context())
	require.NoError(t, err)
	assert.Len(t, queues, 1)
	described, err := i.Queue(t.Context(), "")
	require.NoError(t, err)
	assert.Zero(t, described.Control.Workers)
	schedules, err := i.Schedules(t.Context())
	require.NoError(t, err)
	assert.Empty(t, schedules)
	_, err = i.SetControl(t.Context(), "", management.ControlChange{Paused: new(true)})
	require.NoError(t, err)
	audit, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	assert.Len(t, audit.Entries, 1)
	audit, err = i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{Limit: 1, Cursor: audit.Next})
	require.NoError(t, err)
	assert.Empty(t, audit.Entries)
}

// The clock of an inline queue stands still at the time that a test sets.
func TestActivityOfAMinuteThatJustBegan(t *testing.T) {
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	defer q.Close(t.Context())
	require.NoError(t, q.Put(t.Context(), newTask("a", "alpha")))
	require.Equal(t, 1, q.RunAll(t.Context()))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	got, err := i.Activity(t.Context(), management.ActivityRequest{Last: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, 1, got.Sum.Succeeded)
	assert.InDelta(t, 1, got.Sum.PerSecond, 0)
}

// keyRace blocks the first request that claims an idempotency key, until another request
// with the same key has returned.
type keyRace struct {
	driver.Driver
	once             sync.Once
	claimed, release chan struct{}
}

func (m *keyRace) KeepNew(ctx context.Context, note driver.Note, now time.Time) (driver.Note, bool, error) {
	kept, isNew, err := m.Driver.KeepNew(ctx, note, now)
	if isNew {
		m.once.Do(func() {
			close(m.claimed)
			<-m.release
		})
	}
	return kept, isNew, err
}

func TestConcurrentRequestsWithOneIdempotencyKeyPutOneJob(t *testing.T) {
	for _, id := range []string{"", "given"} {
		m := &keyRace{Driver: newMemory(t), claimed: make(chan struct{}), release: make(chan struct{})}
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: m, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		t.Cleanup(func() { q.Close(ended()) })
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		request := management.NewJob{ID: id, Type: "alpha", Due: inAnHour(), IdempotencyKey: "monday"}
		type result struct {
			created management.Created
			err     error
		}
		first := make(chan result)
		go func() {
			created, errCreate := i.CreateJob(t.Context(), request)
			first <- result{created, errCreate}
		}()
		<-m.claimed
		second, err := i.CreateJob(t.Context(), request)
		require.NoError(t, err)
		assert.False(t, second.Repeated)
		close(m.release)
		got := <-first
		require.NoError(t, got.err)
		assert.Equal(t, management.Created{JobRef: second.JobRef, Repeated: true}, got.created)
		third, err := i.CreateJob(t.Context(), request)
		require.NoError(t, err)
		assert.Equal(t, got.created, third)
		count, err := i.CountJobs(t.Context(), management.JobFilter{}, 10)
		require.NoError(t, err)
		assert.Equal(t, 1, count.Count)
	}
}
