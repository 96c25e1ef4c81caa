package management_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

func TestCreateJob(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		created, err := f.CreateJob(f.ctx, management.NewJob{
			Queue: f.name, ID: "new", Type: "alpha", Args: json.RawMessage(`{"key":"nothing"}`),
			Priority: 4, Due: inAnHour(), Deadline: inAnHour().Add(time.Hour),
		})
		require.NoError(f, err)
		assert.Equal(f, management.Created{JobRef: management.JobRef{Queue: f.name, ID: "new"}}, created)
		got := f.job("new")
		assert.Equal(f, amboy.StateScheduled, got.State)
		assert.Equal(f, 4, got.Priority)
		assert.False(f, got.Deadline.IsZero())

		created, err = f.CreateJob(f.ctx, management.NewJob{Queue: f.name, Type: "post", Args: json.RawMessage(`{"to":"ann"}`)})
		require.NoError(f, err)
		require.NotEmpty(f, created.ID)
		f.wait(created.ID)
		got = f.job(created.ID)
		assert.Equal(f, amboy.StateSucceeded, got.State)
		assert.JSONEq(f, `"sent to ann"`, string(got.Result))
		assert.Equal(f, []string{"mail"}, got.Tags, "a job has the defaults of its definition")
		assert.Equal(f, []management.ScopeUse{{Name: "box ann"}}, got.Scopes)

		_, err = f.CreateJob(f.ctx, management.NewJob{Queue: f.name, ID: "new", Type: "alpha"})
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		assert.Len(f, f.states(), 2)
	})
}

func TestCreateJobWithAnIdempotencyKeyPutsOneJob(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		request := management.NewJob{Queue: f.name, Type: "alpha", Due: inAnHour(), IdempotencyKey: "monday"}
		first, err := f.CreateJob(f.ctx, request)
		require.NoError(f, err)
		assert.False(f, first.Repeated)
		again, err := f.CreateJob(f.ctx, request)
		require.NoError(f, err)
		assert.Equal(f, management.Created{JobRef: first.JobRef, Repeated: true}, again)

		// The same holds if the job no longer exists.
		f.act(first.ID, management.Action{Kind: management.Cancel})
		f.act(first.ID, management.Action{Kind: management.Delete})
		again, err = f.CreateJob(f.ctx, request)
		require.NoError(f, err)
		assert.Equal(f, management.Created{JobRef: first.JobRef, Repeated: true}, again)
		assert.Empty(f, f.states())

		other := request
		other.Priority = 3
		_, err = f.CreateJob(f.ctx, other)
		f.refusedFor("idempotency_key", err)
		other.IdempotencyKey = "tuesday"
		second, err := f.CreateJob(f.ctx, other)
		require.NoError(f, err)
		assert.NotEqual(f, first.ID, second.ID)

		// A request that failed can be repeated, and puts the job with the ID it had chosen.
		late := management.NewJob{Queue: f.name, Type: "alpha", IdempotencyKey: "thursday"}
		for _, draining := range []bool{true, false} {
			_, err = f.SetControl(f.ctx, f.name, management.ControlChange{Draining: &draining})
			require.NoError(f, err)
			created, errCreate := f.CreateJob(f.ctx, late)
			if draining {
				require.ErrorIs(f, errCreate, amboy.ErrQueueDraining)
				continue
			}
			require.NoError(f, errCreate)
			assert.False(f, created.Repeated)
			f.wait(created.ID)
		}

		// A repetition of a refused request is refused too.
		taken := management.NewJob{Queue: f.name, ID: second.ID, Type: "alpha", IdempotencyKey: "wednesday"}
		for range 2 {
			_, err = f.CreateJob(f.ctx, taken)
			assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		}
	})
}

func TestAKeyOfARefusedRequestWasTakenForADay(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		drain := func(draining bool) {
			_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Draining: &draining})
			require.NoError(f, err)
		}
		drain(true)
		wrong := management.NewJob{Queue: f.name, Type: "alpha", IdempotencyKey: "monday"}
		_, err := f.CreateJob(f.ctx, wrong)
		require.ErrorIs(f, err, amboy.ErrQueueDraining)
		drain(false)
		right := wrong
		right.Due = inAnHour()
		created, err := f.CreateJob(f.ctx, right)
		require.NoError(f, err)
		assert.False(f, created.Repeated)
		again, err := f.CreateJob(f.ctx, right)
		require.NoError(f, err)
		assert.Equal(f, management.Created{JobRef: created.JobRef, Repeated: true}, again)
		_, err = f.CreateJob(f.ctx, wrong)
		f.refusedFor("idempotency_key", err)
	})
}

func TestInspectorOfAForeignQueueIsUnsupported(t *testing.T) {
	q := openSQLite(t)
	_, err := management.NewInspector(foreign{q})
	require.ErrorIs(t, err, management.ErrUnsupported)
	i, ok := management.NewQueueManager(foreign{q}).(management.Inspector)
	require.True(t, ok)
	_, err = i.CreateJob(t.Context(), management.NewJob{Type: "alpha"})
	require.ErrorIs(t, err, management.ErrUnsupported)
	_, err = i.Queues(t.Context())
	require.ErrorIs(t, err, management.ErrUnsupported)
}

func TestCreateJobWithoutAnOpenQueueIsUnsupported(t *testing.T) {
	inspectEach(t, []view{ofDatabase}, func(f *inspected) {
		f.put(newTask("a", "alpha"))
		_, err := f.CreateJob(f.ctx, management.NewJob{Queue: f.name, Type: "alpha"})
		require.ErrorIs(f, err, management.ErrUnsupported)
		f.wait("a")
		control, err := f.SetControl(f.ctx, f.name, management.ControlChange{Paused: new(true), Workers: new(3)})
		require.NoError(f, err)
		assert.Equal(f, management.Control{Paused: true, Workers: 3}, control)
		assert.Equal(f, control, f.described().Control)
	})
}

func TestInspectorOfANilQueue(t *testing.T) {
	var argument *management.InvalidArgumentError
	_, err := management.NewInspector(nil)
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, "queue", argument.Field)
	_, err = management.NewGroupInspector(nil)
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, "group", argument.Field)
	i, ok := management.NewQueueManager(nil).(management.Inspector)
	require.True(t, ok)
	_, err = i.Job(t.Context(), "", "a")
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, "queue", argument.Field)
	for _, err := range i.Watch(t.Context(), time.Second) {
		assert.ErrorAs(t, err, &argument)
	}
}
