package workq

import (
	"context"
	"sync"
)

// idLocks lets one call of this server at a time put or remove a job with an ID: what is known of a job
// is in several places, and is found by its ID, which may be used again.
type idLocks struct {
	mu sync.Mutex
	// held holds a channel for each locked ID, which is closed when the ID is unlocked; nil until a
	// call waits for that.
	held map[string]chan struct{}
}

// lock locks an ID. unlock must be called unless there is an error, which is that of ctx.
func (l *idLocks) lock(ctx context.Context, id string) (unlock func(), err error) {
	for {
		held, ok := l.tryLock(id)
		if ok {
			return func() { l.unlock(id) }, nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock locks an ID, or returns a channel that is closed when the call that has locked it unlocks it.
func (l *idLocks) tryLock(id string) (held chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, locked := l.held[id]
	if locked && held == nil {
		held = make(chan struct{})
	}
	l.held[id] = held
	return held, !locked
}

func (l *idLocks) unlock(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.held[id]; held != nil {
		close(held)
	}
	delete(l.held, id)
}
