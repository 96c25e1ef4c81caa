package mongodb_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
			synctest.Test(t, func(t *testing.T) {
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
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		insert(t, other, newRecord(t, "q", "a"))
		require.NoError(t, other.Close(t.Context()))
		assert.Less(t, since(func() { require.NoError(t, drain(t.Context(), d, true)) }), time.Second)
	})
}

// slowPut begins an insert into the queue "queue" that takes 20 s, as behind an open transaction.
func slowPut(t *testing.T, s *mongotest.Deployment, d driver.Driver) {
	t.Helper()
	var armed atomic.Bool
	armed.Store(true)
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.Collection == "work.group" && c.Name == "insert" && armed.Swap(false) {
			time.Sleep(20 * time.Second)
		}
		return mongotest.Served
	})
	var put sync.WaitGroup
	put.Go(func() {
		errs, err := d.Insert(context.Background(), []*driver.Record{plainRecord("slow")})
		assert.NoError(t, err)
		assert.NoError(t, errs[0])
	})
	t.Cleanup(put.Wait)
	pass(time.Second)
	require.False(t, armed.Load())
}

func TestADrainReturnedWhileALiveProcessStillInserted(t *testing.T) {
	for name, opts := range map[string]mongotest.Option{"replica set": mongotest.ReplicaSet(), "standalone": mongotest.Standalone()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory(), opts)
				d, other := openOn(t, s), openOn(t, s)
				putAll(t, other, plainRecord("first"))
				slowPut(t, s, other)
				_, err := d.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
				require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
				require.ErrorContains(t, err, "processes are still putting jobs into the queue: member/")
				pass(20 * time.Second)
				begin := time.Now()
				_, err = d.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
				require.NoError(t, err)
				assert.Less(t, time.Since(begin), 2*time.Second)
				errs, err := other.Insert(t.Context(), []*driver.Record{plainRecord("late")})
				require.NoError(t, err)
				require.ErrorIs(t, errs[0], amboy.ErrQueueDraining)
			})
		})
	}
}

// A transaction that had put a job was committed after the drain of its queue had returned.
func TestATransactionThatEndedAfterADrainPutAJob(t *testing.T) {
	for _, test := range []struct {
		name    string
		bySame  bool          // the process that put the job drains the queue
		after   time.Duration // when the transaction ends
		commits bool
	}{
		{name: "committed", after: 2 * time.Second, commits: true},
		{name: "aborted", after: 2 * time.Second},
		{name: "committed, by the same process", after: 2 * time.Second, commits: true, bySame: true},
		{name: "open for long", after: 30 * time.Second, commits: true},
		{name: "open for long, by the same process", after: 30 * time.Second, commits: true, bySame: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				client := s.Connect()
				d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
				drainer := d
				if !test.bySame {
					drainer = openOn(t, s)
				}
				session, inTx := begin(t, client)
				putAll(t, d, plainRecord("earlier"))
				insertIn(inTx, t, d, plainRecord("job"))
				pass(15 * time.Second) // the process has put nothing for a while
				drained := make(chan error, 1)
				go func() {
					_, err := drainer.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
					drained <- err
				}()
				pass(test.after)
				if test.after > 5*time.Second {
					require.ErrorIs(t, <-drained, driver.ErrOutcomeUnknown)
				} else {
					require.Empty(t, drained, "the transaction is open")
				}
				if !test.commits {
					require.NoError(t, session.AbortTransaction(t.Context()))
				} else {
					require.NoError(t, session.CommitTransaction(t.Context()))
				}
				pass(2 * time.Second)
				if test.after > 5*time.Second {
					_, err := drainer.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
					require.NoError(t, err)
				} else {
					require.NoError(t, <-drained)
				}
			})
		})
	}
}

func TestADrainDuringASlowPutHeldUpTheWakeUpsOfAllQueues(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		claimAll(t, other, request("owner", 1, "elsewhere")) // it listens
		slowPut(t, s, other)
		var drained sync.WaitGroup
		drained.Go(func() {
			_, err := d.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
			assert.ErrorIs(t, err, driver.ErrOutcomeUnknown)
		})
		defer drained.Wait()
		pass(time.Second)
		count := heard([]*mongodb.Driver{other})
		putAll(t, d, plainRecord("job", func(r *driver.Record) { r.Group, r.Name = "elsewhere", "elsewhere.job" }))
		pass(100 * time.Millisecond)
		assert.NotZero(t, count(), "the job of another queue was announced late")
	})
}

// An operator drops the collection of the controls, or restores an older state of it.
func TestAPutSpanAfterTheControlsWereDropped(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("a"))
		_, err := d.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
		require.NoError(t, err)
		require.NoError(t, s.Collection("work.group.control").Drop(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs, err := d.Insert(ctx, []*driver.Record{plainRecord("b")})
		require.NoError(t, err)
		require.NoError(t, errs[0])
	})
}

func TestADrainAfterTheControlsWereDroppedDidNotHold(t *testing.T) {
	for name, opts := range map[string]mongotest.Option{"replica set": mongotest.ReplicaSet(), "standalone": mongotest.Standalone()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory(), opts)
				d, other := openOn(t, s), openOn(t, s)
				claimAll(t, other, request("owner", 1, "queue"))
				putAll(t, other, plainRecord("a"))
				for _, draining := range []bool{true, false} {
					_, err := d.Control(t.Context(), "queue", driver.ControlChange{Draining: &draining})
					require.NoError(t, err)
				}
				pass(time.Second)
				require.NoError(t, s.Collection("work.group.control").Drop(t.Context()))
				pass(3 * time.Second)
				_, err := d.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
				require.NoError(t, err)
				errs, err := other.Insert(t.Context(), []*driver.Record{plainRecord("b")})
				require.NoError(t, err)
				require.ErrorIs(t, errs[0], amboy.ErrQueueDraining)
			})
		})
	}
}

func TestControlRefusesNegativeMaxRunning(t *testing.T) {
	d := newStore(t).open()
	_, err := d.Control(t.Context(), "q", driver.ControlChange{MaxRunning: new(-1)})
	require.EqualError(t, err, `controlling queue "q": MaxRunning must not be negative (is -1)`)
	infos, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Empty(t, infos)
}

// A process that only puts read the settings of all queues each second, and so did each driver of a process whose
// change stream was interrupted.
func TestProcessesReadTheSettingsOfAllQueuesToFindThoseThatDrain(t *testing.T) {
	const queues = 2000
	for name, listens := range map[string]bool{"while it only puts": false, "while its change stream is interrupted": true} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, other := openOn(t, s), openOn(t, s)
				controls := make([]any, queues)
				for i := range controls {
					queue := fmt.Sprint("idle", i)
					controls[i] = bson.M{"_id": "queue/" + queue, "queue": queue, "removed": 1}
				}
				_, err := s.Collection("work.group.control").InsertMany(t.Context(), controls)
				require.NoError(t, err)
				if listens {
					claimAll(t, d, request("owner", 1, "queue"))
				}
				putAll(t, d, plainRecord("a"))
				if listens {
					s.Fail(mongotest.Failure{Commands: []string{"aggregate", "getMore"}, CloseConnection: true})
				}
				s.Server().ResetCosts()
				pass(5 * time.Second)
				assert.Less(t, s.Server().Costs().Examined.Documents, int64(queues/10))
				_, err = other.Control(t.Context(), "queue", driver.ControlChange{Draining: new(true)})
				require.NoError(t, err)
				errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("b")})
				require.NoError(t, err)
				require.ErrorIs(t, errs[0], amboy.ErrQueueDraining)
			})
		})
	}
}
