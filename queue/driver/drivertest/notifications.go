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
	{"subscribers are notified that an end lets other records run", notifierTellsWhatMayRun},
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
	return f.subscribeTo(func(driver.Change) bool { return true })
}

// subscribeTo is subscribe for the notifications that are wanted.
func (f *fixture) subscribeTo(isWanted func(driver.Change) bool) (told func(change func())) {
	f.Helper()
	signal := make(chan struct{}, 1)
	cancel := f.driver.Subscribe(func(c driver.Change) {
		if c.InOneQueue {
			assert.Equal(f, f.queue, c.Queue, "nothing has changed in another queue")
		}
		if !isWanted(c) {
			return
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

func notifierTellsWhatMayRun(f *fixture) {
	told := f.subscribeTo(func(c driver.Change) bool { return c.MayClaim })
	s := []string{"s"}
	f.insert(spec{id: "holder", scopes: s}, spec{id: "dependent", edges: []string{"holder"}}, spec{id: "waiter", scopes: s})
	r := f.claimOne("holder")
	assert.Empty(f, f.claim(10))
	told(func() { f.end(r, amboy.StateSucceeded) })
	assert.Len(f, f.claim(10), 2)

	f.insert(spec{id: "retrying", scopes: s, retryable: true}, spec{id: "next", scopes: s})
	f.end(f.get("waiter"), amboy.StateSucceeded)
	r = f.claimOne("retrying")
	told(func() { f.end(r, amboy.StateRetrying) })
	f.claimOne("next")

	f.insert(spec{id: "later", edges: []string{"next"}, waitUntil: f.after(1)})
	r = f.get("next")
	told(func() { f.end(r, amboy.StateSucceeded) })
	assert.WithinDuration(f, f.after(1), f.claimAt(0, 10).Next, time.Second, "a claim learns when it is due")

	f.maxRunning(1)
	f.end(f.get("dependent"), amboy.StateSucceeded)
	f.insert(spec{id: "a"}, spec{id: "b"})
	r = f.claimOne("a")
	assert.Empty(f, f.claim(10))
	told(func() { f.end(r, amboy.StateSucceeded) })
	f.claimOne("b")
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
	told(func() { f.insert(spec{id: "b"}) }) // The notification of a may have been under way.
	before := calls.Load()
	cancel() // a second cancel does nothing
	told(func() { f.insert(spec{id: "c"}) })
	require.Equal(f, before, calls.Load())
	require.Len(f, f.tryClaim(owner, time.Now(), 10).Records, 3)
}
