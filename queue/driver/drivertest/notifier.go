package drivertest

import (
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var notifierRules = []rule{
	{"subscribers are told of what may be new to claim, and of jobs that ended", notifierTells},
	{"subscribers are not told after they canceled", notifierCancels},
}

// notifier is the driver as a Notifier. The test is skipped where it is none.
func (f *fixture) notifier() driver.Notifier {
	f.Helper()
	n, ok := f.driver.(driver.Notifier)
	if !ok {
		f.Skip("the driver does not implement driver.Notifier")
	}
	return n
}

// subscribe returns a function that requires that the driver notifies after a
// change.
func (f *fixture) subscribe(n driver.Notifier) (told func(change func())) {
	f.Helper()
	signal := make(chan struct{}, 1)
	cancel := n.Subscribe(func() {
		select {
		case signal <- struct{}{}:
		default: // It is told already.
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
			require.Fail(f, "the subscriber was not told")
		}
	}
}

func notifierTells(f *fixture) {
	told := f.subscribe(f.notifier())
	var r *driver.Record
	told(func() { f.insert(spec{id: "job", retryable: true}) })
	r = f.claimOne("job")
	told(func() { f.release(driver.HandBack{Lease: driver.LeaseOf(r)}) })
	r = f.claimOne("job")
	told(func() { require.Equal(f, 1, f.recover(f.after(1))) })
	r = f.claimOne("job")
	told(func() { f.end(r, amboy.StateRetrying) })
	told(func() { f.retry(f.get("job")) })
	r = f.claimOne("job")
	told(func() { f.end(r, amboy.StateRetrying) })
	told(func() {
		require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(f.get("job"), amboy.StateSucceeded)))
	})
}

func notifierCancels(f *fixture) {
	n := f.notifier()
	var calls atomic.Int64
	cancel := n.Subscribe(func() { calls.Add(1) })
	told := f.subscribe(n)
	told(func() { f.insert(spec{id: "a"}) })
	cancel()
	before := calls.Load()
	told(func() { f.insert(spec{id: "b"}) })
	require.Equal(f, before, calls.Load())
	cancel() // again, which does nothing
	told(func() { f.insert(spec{id: "c"}) })
	require.Equal(f, before, calls.Load())
	require.Len(f, f.tryClaim(owner, time.Now(), 10).Records, 3)
}
