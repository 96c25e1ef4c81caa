package pool

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mongodb/amboy"
)

// ErrClosed is returned by calls on a runner that was closed, and is the cause
// of the end of a job's context when the runner ran out of patience. A runner
// can't be started again.
var ErrClosed = errors.New("runner is closed")

// lifecycle is what every runner goes through: it gets a queue, is started
// once, and is closed.
type lifecycle struct {
	mu      sync.Mutex
	queue   amboy.Queue // does not change once started
	started bool
	closed  bool
}

// Started is true between Start and Close. It does not block, and is safe for
// concurrent use.
func (l *lifecycle) Started() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started && !l.closed
}

// SetQueue sets the queue whose jobs are run. It fails with ErrAlreadyStarted
// once the runner has started, with ErrClosed once it was closed, and for nil.
// It does not block, and is safe for concurrent use.
func (l *lifecycle) SetQueue(q amboy.Queue) error {
	if q == nil {
		return errors.New("setting queue of runner: queue must not be nil")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.started:
		return fmt.Errorf("setting queue of runner: %w", amboy.ErrAlreadyStarted)
	case l.closed:
		return fmt.Errorf("setting queue of runner: %w", ErrClosed)
	}
	l.queue = q
	return nil
}

// start marks the runner as started, or says why it can't be. It is false for a
// runner that has started before, too. The caller holds the lock.
func (l *lifecycle) start() (first bool, err error) {
	switch {
	case l.closed:
		return false, fmt.Errorf("starting runner: %w", ErrClosed)
	case l.started:
		return false, nil
	case l.queue == nil:
		return false, errors.New("starting runner: queue must be set")
	}
	l.started = true
	return true, nil
}

// close marks the runner as closed, and tells whether it was ever started.
func (l *lifecycle) close() (started bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.started
}
