package mongodb_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func drain(ctx context.Context, d driver.Driver, draining bool) error {
	_, err := d.Control(ctx, "q", driver.ControlChange{Draining: &draining})
	return err
}

// TestDrainingHoldsInAllProcessesAtOnce drains a queue by one of three drivers, and then
// inserts by another one at once.
func TestDrainingHoldsInAllProcessesAtOnce(t *testing.T) {
	for name, opts := range map[string]mongotest.Options{
		"replica set": {InMemory: true},
		"standalone":  {InMemory: true, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStoreOf(t, opts)
			often := func(o *mongodb.Options) { o.PollInterval = 5 * time.Millisecond }
			drivers := []driver.Driver{s.open(often), s.open(often), s.open(often)}
			for i := range 6 {
				id := string(rune('a' + i))
				require.NoError(t, drain(t.Context(), drivers[i%3], true))
				errs, err := drivers[(i+1)%3].Insert(t.Context(), []*driver.Record{newRecord(t, "q", id), newRecord(t, "other", id)})
				require.NoError(t, err)
				require.ErrorIs(t, errs[0], amboy.ErrQueueDraining)
				require.NoError(t, errs[1])
				require.NoError(t, drain(t.Context(), drivers[(i+2)%3], false))
				insert(t, drivers[(i+1)%3], newRecord(t, "q", id))
			}
		})
	}
}

// TestDrainingWaitsForTheLivingOnly drains while a member has died, before and after it
// is known to be dead.
func TestDrainingWaitsForTheLivingOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		control := s.client.Database(s.db).Collection("work.group.control")
		dead := bson.D{{Key: "_id", Value: "member/dead"}}
		_, err := control.InsertOne(t.Context(), dead)
		require.NoError(t, err)
		d := s.open()
		begin := time.Now()
		require.NoError(t, drain(t.Context(), d, true))
		assert.Equal(t, 5*time.Second, time.Since(begin))
		begin = time.Now()
		require.NoError(t, drain(t.Context(), d, true))
		assert.Less(t, time.Since(begin), time.Second, "the dead member was removed")

		_, err = control.InsertOne(t.Context(), dead)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = drain(ctx, d, true)
		require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestProcessRemovedAsDeadJoinsAgain removes a driver from the members, as a
// process does that gets no answer from it.
func TestProcessRemovedAsDeadJoinsAgain(t *testing.T) {
	for name, opts := range map[string]mongotest.Options{
		"replica set": {InMemory: true},
		"standalone":  {InMemory: true, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, opts)
				insert(t, s.open(), newRecord(t, "q", "a"))
				control := s.client.Database(s.db).Collection("work.group.control")
				members := bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^member/"}}}}
				n, err := control.DeleteMany(t.Context(), members)
				require.NoError(t, err)
				require.EqualValues(t, 1, n.DeletedCount)
				pass(2 * time.Second)
				count, err := control.CountDocuments(t.Context(), members)
				require.NoError(t, err)
				assert.EqualValues(t, 1, count)
			})
		})
	}
}

// TestMembershipEndsWithTheDriver checks that a drain does not wait for a closed driver.
func TestMembershipEndsWithTheDriver(t *testing.T) {
	s := newStore(t)
	d, other := s.open(), s.open()
	insert(t, other, newRecord(t, "q", "a"))
	require.NoError(t, other.Close(t.Context()))
	begin := time.Now()
	require.NoError(t, drain(t.Context(), d, true))
	assert.Less(t, time.Since(begin), 4*time.Second)
}

func TestControlRefusesNegativeMaxRunning(t *testing.T) {
	d := newStore(t).open()
	_, err := d.Control(t.Context(), "q", driver.ControlChange{MaxRunning: new(-1)})
	require.EqualError(t, err, `controlling queue "q": MaxRunning must not be negative (is -1)`)
	infos, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Empty(t, infos)
}
