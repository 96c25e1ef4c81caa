// Package registrations tells those who remember what this process does not know when
// it learns of a type of job or of dependency manager.
package registrations

import "sync"

var (
	mu          sync.Mutex
	subscribers = map[int]func(){}
	last        int
	version     uint64
)

// Subscribe calls a function after each registration, on the goroutine that registers,
// until cancel is called. It must not block. A call that is under way may end after
// cancel.
func Subscribe(learned func()) (cancel func()) {
	mu.Lock()
	defer mu.Unlock()
	last++
	key := last
	subscribers[key] = learned
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(subscribers, key)
	}
}

// Changed says that something was registered. The caller holds no lock.
func Changed() {
	mu.Lock()
	version++
	all := make([]func(), 0, len(subscribers))
	for _, learned := range subscribers {
		all = append(all, learned)
	}
	mu.Unlock()
	for _, learned := range all {
		learned()
	}
}

// Version is another number after each registration.
func Version() uint64 {
	mu.Lock()
	defer mu.Unlock()
	return version
}
