package lifecycle

import (
	"context"
	"sync"
)

// Tasks counts goroutines or calls, so that a caller can wait until none is left. Unlike
// with a sync.WaitGroup, a caller can give up waiting, and tasks may begin while it
// waits. The zero value has no tasks.
type Tasks struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when no task is left; nil without waiters
}

// Go runs a task on a goroutine.
func (t *Tasks) Go(task func()) {
	t.begin()
	go func() {
		defer t.end()
		task()
	}()
}

func (t *Tasks) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running++
}

func (t *Tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Wait waits until no task is left. It returns false if ctx ends first.
func (t *Tasks) Wait(ctx context.Context) bool {
	t.mu.Lock()
	if t.running == 0 {
		t.mu.Unlock()
		return true
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	return receives(ctx, idle)
}
