package mongodb_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// Each subscriber that left was counted until a timer fired, which kept the driver in memory after Close.
func TestTimersOutlivedTheirDriver(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		client := s.Connect()
		drivers := make([]weak.Pointer[mongodb.Driver], 10)
		for i := range drivers {
			d, err := mongodb.Open(t.Context(), mongodb.Options{Client: client, DB: s.Database(), Collection: "work"})
			require.NoError(t, err)
			drivers[i] = weak.Make(d)
			for range 10 {
				d.Subscribe(func(driver.Change) {})()
			}
			require.NoError(t, d.Close(t.Context()))
		}
		synctest.Wait()
		for range 3 {
			time.Sleep(time.Millisecond) // the runtime drops timers that were stopped when others fire
			runtime.GC()
		}
		kept := 0
		for _, d := range drivers {
			if d.Value() != nil {
				kept++
			}
		}
		assert.Less(t, kept, len(drivers)/2, "the runtime may keep some a little longer")
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
