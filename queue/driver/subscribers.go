package driver

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// Subscribers are the functions that a driver calls after a change: what it needs
// for Driver.Subscribe. The zero value has none. It is safe for concurrent use.
type Subscribers struct {
	mu   sync.Mutex
	all  map[int]func(mayClaim bool)
	last int
	// list is what Notify reads, without a lock.
	list atomic.Pointer[[]func(mayClaim bool)]
}

// Subscribe adds a function, until cancel is called. It does not block. A call of
// Notify that is under way may call the function after cancel.
func (s *Subscribers) Subscribe(notify func(mayClaim bool)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int]func(mayClaim bool){}
	}
	s.last++
	key := s.last
	s.all[key] = notify
	s.publish()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, key)
		s.publish()
	}
}

func (s *Subscribers) publish() {
	list := make([]func(mayClaim bool), 0, len(s.all))
	for _, notify := range s.all {
		list = append(list, notify)
	}
	s.list.Store(&list)
}

// Notify calls the functions, which must not block. It holds no lock, so that they
// may subscribe and cancel.
//
//nolint:contextcheck // A subscriber is called by whoever changes the store.
func (s *Subscribers) Notify(mayClaim bool) {
	list := s.list.Load()
	if list == nil {
		return
	}
	for _, notify := range *list {
		call(notify, mayClaim)
	}
}

// call calls a subscriber. Its panic is logged, as the change was made, and its caller may
// be a goroutine that serves all.
func call(notify func(mayClaim bool), mayClaim bool) {
	defer func() {
		if value := recover(); value != nil {
			logging.Error(context.Background(), message.Fields{
				"message": "a subscriber of a driver panicked",
				"error":   fmt.Sprint(value),
				"stack":   string(debug.Stack()),
			})
		}
	}()
	notify(mayClaim)
}
