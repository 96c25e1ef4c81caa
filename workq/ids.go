package workq

import (
	"context"
	"sync"
)

// idLocks lets one call of this server at a time put or remove a job with an ID: what is known of a job
// is in several places, and is found by its ID, which may be used again.
type idLocks struct {
	mu sync.Mutex
	// held holds a channel for each locked ID, which is closed when the ID is unlocked.
	held map[string]chan struct{}
}

// lock locks an ID. unlock must be called unless there is an error, which is that of ctx.
func (l *idLocks) lock(ctx context.Context, id string) (unlock func(), err error) {
	for {
		held := l.tryLock(id)
		if held == nil {
			return func() { l.unlock(id) }, nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock locks an ID, or returns the channel of the call that has locked it.
func (l *idLocks) tryLock(id string) (held chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held = l.held[id]; held == nil {
		l.held[id] = make(chan struct{})
	}
	return held
}

func (l *idLocks) unlock(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[id])
	delete(l.held, id)
}
