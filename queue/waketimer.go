package queue

import (
	"sync"
	"time"
)

// wakeTimer calls fire at a time that can be moved. It needs no goroutine while
// it waits. It is safe for concurrent use.
type wakeTimer struct {
	fire func()

	mu      sync.Mutex
	timer   *time.Timer
	at      time.Time // zero while no call is due
	stopped bool
	calls   tasks
}

// set makes sure that fire is called at that time or before.
func (t *wakeTimer) set(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || (!t.at.IsZero() && !at.Before(t.at)) {
		return
	}
	t.cancel()
	t.at = at
	t.calls.begin()
	t.timer = time.AfterFunc(time.Until(at), func() {
		defer t.calls.end()
		t.mu.Lock()
		if t.at.Equal(at) {
			t.at = time.Time{}
		}
		t.mu.Unlock()
		t.fire()
	})
}

// cancel takes the call that is due back, unless it has begun.
func (t *wakeTimer) cancel() {
	if t.timer != nil && t.timer.Stop() {
		t.calls.end()
	}
	t.timer, t.at = nil, time.Time{}
}

// clear takes the call that is due back.
func (t *wakeTimer) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel()
}

// stop ends the timer, whose calls has then at most one that has begun.
func (t *wakeTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.cancel()
}
