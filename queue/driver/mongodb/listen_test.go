package mongodb_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A timer that was started when a subscriber left, or when the workers were all busy, fired after Close and had the
// driver listen again.
func TestAClosedDriverListenedAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		var streams atomic.Int64
		client := watched(t, s, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if _, err := e.Command.LookupErr("pipeline", "0", "$changeStream"); err == nil {
				streams.Add(1)
			}
		}})
		openOn(t, s, func(o *mongodb.Options) { o.Client = client }) // the change stream of the client lasts as long as a driver
		d, err := mongodb.Open(t.Context(), mongodb.Options{Client: client, DB: s.Database(), Collection: "work", Grouped: true})
		require.NoError(t, err)
		putAll(t, d, plainRecord("job"))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		for range 3 {
			d.Subscribe(func(driver.Change) {})()
		}
		pass(time.Second)
		require.NoError(t, d.Close(t.Context()))
		synctest.Wait()
		require.NotZero(t, streams.Swap(0))
		pass(time.Minute)
		assert.Zero(t, streams.Load())
	})
}

// Each setting of a queue made every process read its document, one after the other, and hear of new jobs only after
// that: thousands when a service starts and sets the limits of all tenants.
func TestEverySettingOfAQueueWasReadByEveryProcess(t *testing.T) {
	const queues = 20
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		var reads atomic.Int64
		client := watched(t, s, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if from, _ := e.Command.Lookup("find").StringValueOK(); from == "work.group.control" {
				reads.Add(1)
			}
		}})
		d, other := openOn(t, s), openOn(t, s, func(o *mongodb.Options) { o.Client = client })
		claimAll(t, other, request("owner", 1, "queue"))
		pass(time.Second)
		reads.Store(0)
		count := heard([]*mongodb.Driver{other})
		for _, change := range []driver.ControlChange{{Paused: new(true)}, {MaxRunning: new(2)}, {Rate: &amboy.Rate{PerSecond: 3}}} {
			for i := range queues {
				_, err := d.Control(t.Context(), fmt.Sprint("tenant", i), change)
				require.NoError(t, err)
			}
			pass(time.Second)
			assert.NotZero(t, count(), "the settings changed")
		}
		assert.Zero(t, reads.Load())
	})
}
