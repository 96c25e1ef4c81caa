package mongodb_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// makeBusy makes a driver claim a job, and all that it asks for, until it is taken to be busy.
func makeBusy(t *testing.T, d *mongodb.Driver) *driver.Record {
	t.Helper()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	pass(time.Minute)
	return running[0]
}

// newestStream returns a function that returns what the change stream that was opened last watches.
func newestStream(s *mongotest.Deployment) func() string {
	var mu sync.Mutex
	var watched string
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.Command.Lookup("pipeline", "0", "$changeStream").Type != 0 {
			mu.Lock()
			defer mu.Unlock()
			watched, _ = c.Command.Lookup("aggregate").StringValueOK()
		}
		return mongotest.Served
	})
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return watched
	}
}

// The server decoded each change of each job for each busy process, only to leave it out.
func TestTheServerDecodedAllChangesForBusyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		watched := newestStream(s)
		d := openOn(t, s)
		makeBusy(t, d)
		assert.Equal(t, "work.group.control", watched())
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")), "now it is idle")
		pass(time.Second)
		assert.Empty(t, watched(), "the whole database")
		count := heard([]*mongodb.Driver{d})
		putAll(t, openOn(t, s), plainRecord("another"))
		assert.Equal(t, 1, count())
	})
}

// It did so for the first ten seconds of each drain.
func TestTheServerDecodedAllChangesOfAShortDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		watched := newestStream(s)
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		pass(3 * time.Second)
		assert.Equal(t, "work.group.control", watched())
	})
}

// The server decoded all changes for it until it was closed.
func TestAProcessThatHadWaitedForAJobListenedToAllChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		watched := newestStream(s)
		d, other := openOn(t, s), openOn(t, s)
		waits := d.Subscribe(func(driver.Change) {})
		pass(time.Second)
		waits()
		pass(time.Minute)
		assert.Equal(t, "work.group.control", watched())
		var told atomic.Int64
		defer d.Subscribe(func(driver.Change) { told.Add(1) })()
		pass(time.Second)
		assert.Empty(t, watched(), "the whole database")
		told.Store(0)
		putAll(t, other, plainRecord("job"))
		pass(time.Second)
		assert.NotZero(t, told.Load())
	})
}

func TestABusyProcessHearsOfCancelsAndControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d, other := openOn(t, s), openOn(t, s)
		running := makeBusy(t, d)
		var changes []driver.Change
		d.SubscribeToClaimable(func(c driver.Change) { changes = append(changes, c) })
		for range 2 { // the first request makes a document, and the second one changes it
			changes = nil
			require.Equal(t, 1, act(t, other, driver.Action{Kind: driver.Cancel}).Done)
			pass(time.Second)
			assert.Equal(t, []driver.Change{{Cancels: true}}, changes)
		}
		leases, err := d.CancelRequests(t.Context(), "owner")
		require.NoError(t, err)
		assert.Equal(t, []driver.Lease{driver.LeaseOf(running)}, leases)

		changes = nil
		_, err = other.Control(t.Context(), "queue", driver.ControlChange{Paused: new(true)})
		require.NoError(t, err)
		pass(time.Second)
		assert.Len(t, changes, 1)
	})
}

// A busy process does not hear that the collection was dropped.
func TestACollectionThatWasDroppedWhileAProcessWasBusyHasIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		makeBusy(t, d)
		require.NoError(t, s.jobs(true).Drop(t.Context()))
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		pass(10 * time.Second)
		putAll(t, d, plainRecord("job"))
		condition, err := d.Examine(t.Context())
		require.NoError(t, err)
		assert.Empty(t, condition.Defects)
	})
}

// What a process does when it is no longer busy was interrupted, because it needed to hear of more. Later it did
// everything but check the indexes.
func TestACollectionThatWasDroppedWhileAProcessWasBusyHadNoIndexesAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		makeBusy(t, d)
		require.NoError(t, s.Client().Database(s.Database()).Collection("work.group").Drop(t.Context()))
		checks, goesOn := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "listIndexes" && !held.Swap(true) {
				close(checks)
				<-goesOn
			}
			return mongotest.Served
		})
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		<-checks
		defer d.Subscribe(func(driver.Change) {})()
		synctest.Wait()
		close(goesOn)
		pass(10 * time.Second)
		putAll(t, d, plainRecord("job"))
		condition, err := d.Examine(t.Context())
		require.NoError(t, err)
		assert.Empty(t, condition.Defects)
	})
}

// Drivers of one client with other collections have one stream. It watches the whole database unless
// all need to hear of the same controls only.
func TestAStreamForSeveralCollectionsWatchesThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		watched := newestStream(s)
		client := s.Connect()
		in := func(collection string) func(o *mongodb.Options) {
			return func(o *mongodb.Options) { o.Collection, o.Client = collection, client }
		}
		first, second := openOn(t, s, in("first")), openOn(t, s, in("second"))
		makeBusy(t, first)
		makeBusy(t, second)
		assert.Empty(t, watched())
		for name, d := range map[string]*mongodb.Driver{"first": first, "second": second} {
			count := heard([]*mongodb.Driver{d})
			other := openOn(t, s, func(o *mongodb.Options) { o.Collection = name }) // of another client
			_, err := other.Control(t.Context(), "queue", driver.ControlChange{Paused: new(true)})
			require.NoError(t, err)
			pass(time.Second)
			assert.NotZero(t, count(), name)
		}
	})
}

// The server went on for half a minute with the change stream of a process that had become busy.
func TestAnInterruptedStreamWentOnOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		var opened, killed atomic.Int64
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			switch {
			case c.Command.Lookup("pipeline", "0", "$changeStream").Type != 0:
				opened.Add(1)
			case c.Name == "killCursors":
				killed.Add(1)
			}
			return mongotest.Served
		})
		makeBusy(t, openOn(t, s))
		assert.EqualValues(t, 2, opened.Load())
		assert.EqualValues(t, 1, killed.Load())
	})
}

// A process ended the holder of a scope and died before it made the next job ready. The other process was busy
// for a while and did not hear of it, and afterwards no process searched for it.
func TestWhatAProcessLeftWhileAnotherWasBusyWaitedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		p, dieBefore := newDying(t, s)
		require.Empty(t, claimAll(t, p, request("dying", 1, "another")))
		d := openOn(t, s)
		makeBusy(t, d)
		pass(20 * time.Second) // it has just swept, as it does once a minute
		putAll(t, p, plainRecord("holder", wantsScope), plainRecord("waiter", wantsScope))
		running := claimAll(t, p, request("dying", 1, "queue"))
		require.Len(t, running, 1)
		dieBefore("aggregate", 1)
		endAll(t, p, running...)
		require.True(t, p.isDead())
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")), "now it is idle")
		pass(5 * time.Minute)
		assert.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
	})
}

// What a process reads after its change stream was opened anew got no answer, on a connection that was dead. Until the
// system gave that up, the stream was followed no further.
func TestAChangeStreamWaitedForWhatIsReadBesideIt(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, producer := openOn(t, s), openOn(t, s)
		makeBusy(t, d)
		dead := make(chan struct{})
		var met atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "find" && strings.HasPrefix(c.Collection, "work.group") && !met.Swap(true) {
				<-dead
				return mongotest.Unserved
			}
			return mongotest.Served
		})
		t.Cleanup(func() { close(dead) })
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")), "it is idle, and was busy")
		pass(2 * time.Minute)
		require.True(t, met.Load())
		var told atomic.Int64
		d.SubscribeToClaimable(func(c driver.Change) {
			if c.InOneQueue {
				told.Add(1)
			}
		})
		putAll(t, producer, plainRecord("new"))
		pass(time.Second)
		assert.NotZero(t, told.Load())
	})
}
