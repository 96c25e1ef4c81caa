package lifecycle

import (
	"sync"
	"time"
)

// WakeTimer calls fire at a time that can be moved. It uses no goroutine while it waits.
// It is safe for concurrent use.
type WakeTimer struct {
	Fire func()
	// Early is called each time the timer has read the clock and found it too early to
	// fire. Default: nothing.
	Early func()
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	mu      sync.Mutex
	timer   *time.Timer
	armed   int       // counts the timers, to recognize one that was replaced
	at      time.Time // zero while no call is due
	stopped bool
	Calls   Tasks
}

// longestSleep is the longest time between two readings of the clock. The clock may be
// set meanwhile, but a Go timer measures monotonic time.
const longestSleep = 30 * time.Second

// Set makes sure that fire is called at that time or earlier.
func (t *WakeTimer) Set(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || (!t.at.IsZero() && !at.Before(t.at)) {
		return
	}
	t.cancel()
	t.at = at
	t.arm()
}

// arm starts a timer for the time, or for the next reading of the clock. The caller holds
// the lock.
func (t *WakeTimer) arm() {
	t.armed++
	armed := t.armed
	t.Calls.begin()
	t.timer = time.AfterFunc(min(t.at.Sub(t.time()), longestSleep), func() {
		defer t.Calls.end()
		switch isTime, isEarly := t.isTime(armed); {
		case isTime:
			t.Fire()
		case isEarly && t.Early != nil:
			t.Early()
		}
	})
}

// isTime reports whether a timer is to call fire, or fired too early; then it arms
// another timer. Both are false for a timer that was replaced.
func (t *WakeTimer) isTime(armed int) (isTime, isEarly bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if armed != t.armed || t.at.IsZero() {
		return false, false // moved or canceled while the timer fired
	}
	if t.at.After(t.time()) {
		if t.stopped {
			return false, false
		}
		t.arm()
		return false, true
	}
	t.timer, t.at = nil, time.Time{}
	return true, false
}

func (t *WakeTimer) time() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// cancel cancels the pending call, unless it has begun. The caller holds the lock.
func (t *WakeTimer) cancel() {
	if t.timer != nil && t.timer.Stop() {
		t.Calls.end()
	}
	t.timer, t.at = nil, time.Time{}
}

// Stop stops the timer. A call of fire that has begun may still run.
func (t *WakeTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.cancel()
}
