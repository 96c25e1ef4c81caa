package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// Each queue of a client had two change streams, so that 50 queues exhausted a pool of 100
// connections.
func TestManyQueuesOfOneClientExhaustedItsConnections(t *testing.T) {
	const some, perSecond, observed = 10, 8.0, 5 * time.Minute
	queues := fullOr(100, 30)
	// 42 runs took from 2 fewer to 3 more than the first queues, as luck would have it. A connection for each queue is 20 more.
	connections := fullOr(3, 9)
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		client := d.Connect()
		start := func(i int) {
			workers := 4
			q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{
				DB:         &queue.MongoDBOptions{Client: client, DB: d.Database(), Collection: fmt.Sprint("queue", i)},
				NumWorkers: &workers,
			})
			require.NoError(t, err)
			t.Cleanup(func() { q.Close(ended()) })
			require.NoError(t, q.Start(t.Context()))
		}
		// How many commands a queue sends at once when it starts is a matter of luck, so the connections that this takes are
		// the most that some starts take.
		for i := range some {
			pass(97 * time.Millisecond) // so long it takes on a real server
			start(i)
		}
		pass(time.Minute)
		first := d.Server().Connections()
		for i := some; i < queues; i++ {
			pass(97 * time.Millisecond)
			start(i)
		}
		pass(time.Minute)
		d.Commands().Reset()
		pass(observed)
		each := float64(d.Commands().Total()) / observed.Seconds()
		t.Logf("%d connections beyond the %d of the first queues; %.2f commands a second of %d queues: %s",
			d.Server().Connections()-first, first, each, queues, d.Commands())
		assert.LessOrEqual(t, d.Server().Connections()-first, connections)
		assert.LessOrEqual(t, each, perSecond*float64(queues)/100)
	})
}
