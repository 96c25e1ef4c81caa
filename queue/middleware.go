package queue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
)

// middleware is the middleware of a queue.
type middleware struct {
	// insert puts jobs without middleware.
	insert amboy.PutFunc
	// put is insert wrapped in the middleware; nil if no middleware wraps it.
	put atomic.Pointer[amboy.PutFunc]

	mu  sync.Mutex
	all []amboy.Middleware
	run amboy.RunFunc // nil if no middleware wraps runs
}

func (m *middleware) add(mw []amboy.Middleware) error {
	all := slices.Concat(m.all, mw)
	run, err := amboy.ChainRun(all...)
	if err != nil {
		return err
	}
	put, err := amboy.ChainPut(m.insert, all...)
	if err != nil {
		return err
	}
	m.all, m.run = all, run
	if put != nil {
		m.put.Store(&put)
	}
	return nil
}

// Use adds middleware to a queue that has not started.
func (l *lifecycle) Use(mw ...amboy.Middleware) error {
	if len(mw) == 0 {
		return nil
	}
	l.middleware.mu.Lock()
	defer l.middleware.mu.Unlock()
	err := amboy.ErrAlreadyStarted
	if l.is(created) {
		err = l.middleware.add(mw)
	}
	if err != nil {
		return fmt.Errorf("adding middleware to queue %q: %w", l.id, err)
	}
	return nil
}

// RunFunc returns the function that runs a job inside the middleware, or nil if no
// middleware wraps runs.
func (l *lifecycle) RunFunc() amboy.RunFunc {
	l.middleware.mu.Lock()
	defer l.middleware.mu.Unlock()
	return l.middleware.run
}
