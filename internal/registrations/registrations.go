// Package registrations notifies subscribers when a type of job or of dependency manager is
// registered in this process. Queues cache which types are unknown.
package registrations

import "sync"

var (
	mu          sync.Mutex
	subscribers = map[int]func(){}
	last        int
	version     uint64
)

// Subscribe calls changed after each registration, on the goroutine that registers, until
// cancel is called. changed must not block. A call that has started may return after
// cancel.
func Subscribe(changed func()) (cancel func()) {
	mu.Lock()
	defer mu.Unlock()
	last++
	key := last
	subscribers[key] = changed
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(subscribers, key)
	}
}

// Changed notifies the subscribers of a registration. The caller must hold no lock.
func Changed() {
	mu.Lock()
	version++
	all := make([]func(), 0, len(subscribers))
	for _, changed := range subscribers {
		all = append(all, changed)
	}
	mu.Unlock()
	for _, changed := range all {
		changed()
	}
}

// Version returns a number that changes with each registration.
func Version() uint64 {
	mu.Lock()
	defer mu.Unlock()
	return version
}
