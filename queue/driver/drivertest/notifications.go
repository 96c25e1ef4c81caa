package drivertest

import (
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var subscribeRules = []rule{
	{"a subscription can be canceled, and canceled again", subscribeCancels},
}

var notificationRules = []rule{
	{"subscribers are notified of claimable records and ended jobs", notifierTells},
	{"subscribers are notified of an operator's actions", notifierTellsOfPersons},
	{"subscribers are not notified after they canceled", notifierCancels},
}

func subscribeCancels(f *fixture) {
	cancel := f.driver.Subscribe(func(driver.Change) {})
	f.insert(spec{id: "a"})
	cancel()
	cancel()
	f.insert(spec{id: "b"})
}

// subscribe returns a function that requires that the driver notifies after a change.
func (f *fixture) subscribe() (told func(change func())) {
	f.Helper()
	signal := make(chan struct{}, 1)
	cancel := f.driver.Subscribe(func(c driver.Change) {
		if c.InOneQueue {
			assert.Equal(f, f.queue, c.Queue, "nothing has changed in another queue")
		}
		select {
		case signal <- struct{}{}:
		default: // already notified
		}
	})
	f.Cleanup(cancel)
	return func(change func()) {
		f.Helper()
		select {
		case <-signal: // of the change before
		default:
		}
		change()
		select {
		case <-signal:
		case <-f.ctx.Done():
			require.Fail(f, "the subscriber was not notified")
		}
	}
}

func notifierTells(f *fixture) {
	told := f.subscribe()
	var r *driver.Record
	told(func() { f.insert(spec{id: "job", retryable: true}) })
	r = f.claimOne("job")
	told(func() { f.release(driver.HandBack{Lease: driver.LeaseOf(r)}) })
	r = f.claimOne("job")
	told(func() { require.Equal(f, 1, f.recoverEnded()) })
	r = f.claimOne("job")
	told(func() { f.end(r, amboy.StateRetrying) })
	told(func() { f.retry(f.get("job")) })
	r = f.claimOne("job")
	told(func() { f.end(r, amboy.StateRetrying) })
	told(func() {
		require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(f.get("job"), amboy.StateSucceeded)))
	})
}

func notifierTellsOfPersons(f *fixture) {
	told := f.subscribe()
	f.insert(spec{id: "job"})
	told(func() { f.act(driver.Action{Kind: driver.Reschedule, At: f.after(1)}, "job") })
	told(func() { f.runNow("job") })
	told(func() { f.prioritize("job", 1) })
	told(func() { f.park("job") })
	told(func() { f.unpark("job") })
	f.claimOne("job")
	told(func() { f.cancel("job") })
	f.end(f.get("job"), amboy.StateFailed)
	told(func() { f.restart("job") })
	told(func() { f.cancel("job") })
	told(func() { f.delete("job") })
	told(func() { f.pause(true) })
	told(func() { f.pause(false) })
	told(func() { f.drain(true) })
	told(func() { f.maxRunning(1) })
}

func notifierCancels(f *fixture) {
	var calls atomic.Int64
	cancel := f.driver.Subscribe(func(driver.Change) { calls.Add(1) })
	told := f.subscribe()
	told(func() { f.insert(spec{id: "a"}) })
	cancel()
	before := calls.Load()
	told(func() { f.insert(spec{id: "b"}) })
	require.Equal(f, before, calls.Load())
	cancel() // a second cancel does nothing
	told(func() { f.insert(spec{id: "c"}) })
	require.Equal(f, before, calls.Load())
	require.Len(f, f.tryClaim(owner, time.Now(), 10).Records, 3)
}
