package queue

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// mongoDBEngines holds the engines of a group: one per set of options that the queues on
// an engine must share.
type mongoDBEngines struct {
	mu  sync.Mutex
	all []*mongoDBEngine
	// inUse holds the open engines.
	inUse []*engine.Engine
}

// mongoDBEngineOptions are the options that the queues on one engine share.
type mongoDBEngineOptions struct {
	store       mongodb.Options
	lockTimeout time.Duration
	retryScan   time.Duration
}

// mongoDBEngine is an engine that the first caller of open opens.
type mongoDBEngine struct {
	opts mongoDBEngineOptions
	open func() (*engine.Engine, error)
}

// get returns the engine with these options, and opens it if needed. Concurrent callers
// wait for the same attempt. If the engine can't be opened, the next call tries again.
func (s *mongoDBEngines) get(ctx context.Context, opts mongoDBEngineOptions) (*engine.Engine, error) {
	found := s.find(ctx, opts)
	e, err := found.open()
	if err != nil {
		s.forget(found)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.inUse, e) {
		s.inUse = append(s.inUse, e)
	}
	return e, nil
}

// opened returns the open engines.
func (s *mongoDBEngines) opened() []*engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inUse)
}

func (s *mongoDBEngines) find(ctx context.Context, opts mongoDBEngineOptions) *mongoDBEngine {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if reflect.DeepEqual(e.opts, opts) {
			return e
		}
	}
	e := &mongoDBEngine{opts: opts, open: sync.OnceValues(func() (*engine.Engine, error) { return opts.open(ctx) })}
	s.all = append(s.all, e)
	return e
}

func (s *mongoDBEngines) forget(failed *mongoDBEngine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(e *mongoDBEngine) bool { return e == failed })
}

// open opens the store, and makes an engine on it.
func (o mongoDBEngineOptions) open(ctx context.Context) (*engine.Engine, error) {
	store, err := mongodb.Open(ctx, o.store)
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{
		Driver:       store,
		OwnsDriver:   true,
		LeaseTime:    o.lockTimeout,
		PollInterval: o.store.PollInterval,
		RetryScan:    o.retryScan,
	}), nil
}

// close closes all engines, as Engine.Close does. It is called after their queues have
// closed, when no engine is opened any more.
func (s *mongoDBEngines) close(late context.Context) (left lifecycle.Leftover) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	closed := make([]lifecycle.Leftover, len(all))
	var closing sync.WaitGroup
	for i, found := range all {
		closing.Go(func() { closed[i] = found.close(late) })
	}
	closing.Wait()
	for _, of := range closed {
		left.Parts = append(left.Parts, of.Parts...)
	}
	return left
}

// close closes the engine if it was opened.
func (e *mongoDBEngine) close(late context.Context) (left lifecycle.Leftover) {
	var opened *engine.Engine
	err := lifecycle.InTime(late, func() error {
		opened, _ = e.open() // the caller that opened it got the error
		return nil
	})
	if err != nil {
		left.Add("connection", err)
		return left
	}
	if opened == nil {
		return left
	}
	return opened.Close(late)
}
