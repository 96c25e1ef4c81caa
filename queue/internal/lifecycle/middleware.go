package lifecycle

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
)

// Middleware is the middleware of a queue.
type Middleware struct {
	// Insert puts jobs without middleware.
	Insert amboy.PutFunc
	// Put is insert wrapped in the middleware; nil if no middleware wraps it.
	Put atomic.Pointer[amboy.PutFunc]

	mu  sync.Mutex
	all []amboy.Middleware
	run amboy.RunFunc // nil if no middleware wraps runs
}

func (m *Middleware) add(mw []amboy.Middleware) error {
	all := slices.Concat(m.all, mw)
	run, err := amboy.ChainRun(all...)
	if err != nil {
		return err
	}
	put, err := amboy.ChainPut(m.Insert, all...)
	if err != nil {
		return err
	}
	m.all, m.run = all, run
	if put != nil {
		m.Put.Store(&put)
	}
	return nil
}

// Use adds middleware to a queue that has not started.
func (l *Base) Use(mw ...amboy.Middleware) error {
	if len(mw) == 0 {
		return nil
	}
	l.Middleware.mu.Lock()
	defer l.Middleware.mu.Unlock()
	err := amboy.ErrAlreadyStarted
	if l.Is(Created) {
		err = l.Middleware.add(mw)
	}
	if err != nil {
		return fmt.Errorf("adding middleware to queue %q: %w", l.id, err)
	}
	return nil
}

// RunFunc returns the function that runs a job inside the middleware, or nil if no
// middleware wraps runs.
func (l *Base) RunFunc() amboy.RunFunc {
	l.Middleware.mu.Lock()
	defer l.Middleware.mu.Unlock()
	return l.Middleware.run
}
