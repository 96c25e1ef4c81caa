package mongodb_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// A process whose change stream was interrupted asked for the events since then. A server reads all that was
// written since before it answers. If that took longer than 5 s, the process asked for the same again and again.
func TestAChangeStreamThatTookLongToResumeWasNeverOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d, producer := openOn(t, s), openOn(t, s)
		var told atomic.Int64 // by the stream, and not because the process polls
		t.Cleanup(d.Subscribe(func(c driver.Change) {
			if c.InOneQueue {
				told.Add(1)
			}
		}))
		pass(time.Second)
		var cut atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			switch {
			case c.Command.Lookup("pipeline", "0", "$changeStream", "resumeAfter").Type != 0:
				time.Sleep(time.Minute)
			case c.Name == "getMore" && !cut.Swap(true):
				return mongotest.Unserved
			}
			return mongotest.Served
		})
		pass(5 * time.Minute)
		require.True(t, cut.Load())
		putAll(t, producer, plainRecord("job"))
		pass(time.Second)
		assert.NotZero(t, told.Load())
	})
}
