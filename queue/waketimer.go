package queue

import (
	"sync"
	"time"
)

// wakeTimer calls fire at a time that can be moved. It needs no goroutine while
// it waits. It is safe for concurrent use.
type wakeTimer struct {
	fire func()
	// early is called each time that the clock was read and it was too early to fire.
	// Default: nothing.
	early func()
	// now is the clock. Default: time.Now.
	now func() time.Time

	mu      sync.Mutex
	timer   *time.Timer
	armed   int       // counts the timers, so that one that was replaced is known
	at      time.Time // zero while no call is due
	stopped bool
	calls   tasks
}

// longestSleep is the longest time without a look at the clock, which may have been
// set meanwhile: a timer goes by a clock that is never set.
const longestSleep = 30 * time.Second

// set makes sure that fire is called at that time or before.
func (t *wakeTimer) set(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || (!t.at.IsZero() && !at.Before(t.at)) {
		return
	}
	t.cancel()
	t.at = at
	t.arm()
}

// arm waits for the time, or until the clock is to be looked at. The caller holds the
// lock.
func (t *wakeTimer) arm() {
	t.armed++
	armed := t.armed
	t.calls.begin()
	t.timer = time.AfterFunc(min(t.at.Sub(t.time()), longestSleep), func() {
		defer t.calls.end()
		switch isTime, isEarly := t.isTime(armed); {
		case isTime:
			t.fire()
		case isEarly && t.early != nil:
			t.early()
		}
	})
}

// isTime reports whether fire is to be called by a timer, or it is too early for that;
// then it arms another. Neither is true of a timer that was replaced.
func (t *wakeTimer) isTime(armed int) (isTime, isEarly bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if armed != t.armed || t.at.IsZero() {
		return false, false // it was moved, or taken back, at the last moment
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

func (t *wakeTimer) time() time.Time {
	if t.now != nil {
		return t.now()
	}
	return time.Now()
}

// cancel takes the call that is due back, unless it has begun.
func (t *wakeTimer) cancel() {
	if t.timer != nil && t.timer.Stop() {
		t.calls.end()
	}
	t.timer, t.at = nil, time.Time{}
}

// stop ends the timer, whose calls has then at most one that has begun.
func (t *wakeTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.cancel()
}
