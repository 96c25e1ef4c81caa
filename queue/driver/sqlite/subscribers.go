package sqlite

import (
	"maps"
	"slices"
	"sync"
)

// subscribers are the functions to call after a change. The zero value has none.
type subscribers struct {
	mu   sync.Mutex
	all  map[int]func()
	last int
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
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, key)
	}
}

// notify calls them without the lock, so that they may subscribe and cancel.
func (s *subscribers) notify() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	for _, notify := range all {
		notify()
	}
}
