package pool

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mongodb/amboy"
)

// ErrClosed is returned by calls on a closed runner, which can't be started again. It is
// also the cause with which a job's context ends when the deadline of Close expires.
var ErrClosed = errors.New("runner is closed")

// lifecycle holds the state that all runners share: a runner gets a queue, is started
// once, and is closed.
type lifecycle struct {
	mu      sync.Mutex
	queue   amboy.Queue // does not change once started
	started bool
	closed  bool
}

// Started reports whether the runner is between Start and Close. It does not block, and is
// safe for concurrent use.
func (l *lifecycle) Started() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started && !l.closed
}

// SetQueue sets the queue whose jobs are run. It fails with amboy.ErrAlreadyStarted after
// Start, with ErrClosed after Close, and for a nil queue. It does not block, and is safe
// for concurrent use.
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

// start marks the runner as started and returns true, or returns why it can't be started.
// It returns false without an error if the runner was started before. The caller holds the
// lock.
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

// close marks the runner as closed, and reports whether it was ever started.
func (l *lifecycle) close() (started bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.started
}
