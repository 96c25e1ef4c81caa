package memory

import (
	"sync"
	"sync/atomic"
)

// subscribers are the functions to call after a change. The zero value has none.
type subscribers struct {
	mu   sync.Mutex
	all  map[int]func()
	last int
	// list is what notify reads, without a lock.
	list atomic.Pointer[[]func()]
}

func (s *subscribers) add(notify func()) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int]func(){}
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

func (s *subscribers) publish() {
	list := make([]func(), 0, len(s.all))
	for _, notify := range s.all {
		list = append(list, notify)
	}
	s.list.Store(&list)
}

func (s *subscribers) notify() {
	list := s.list.Load()
	if list == nil {
		return
	}
	for _, notify := range *list {
		notify()
	}
}
