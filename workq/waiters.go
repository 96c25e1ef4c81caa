package workq

import (
	"context"
	"sync"
)

// waiters are the commands of this server that wait for results. The first to read a
// result gives it to the others that wait for the same job.
type waiters struct {
	mu   sync.Mutex
	byID map[string]*waiter
}

// waiter is a command that waits, with the next one that waits for the same job.
type waiter struct {
	wake   context.CancelFunc
	got    *result
	before *waiter
}

// join adds a command. wake is called when it gets a result.
func (ws *waiters) join(id string, wake context.CancelFunc) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := &waiter{wake: wake, before: ws.byID[id]}
	ws.byID[id] = w
	return w
}

// leave removes a command.
func (ws *waiters) leave(id string, w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	first := ws.byID[id]
	if first == w {
		if w.before == nil {
			delete(ws.byID, id)
		} else {
			ws.byID[id] = w.before
		}
		return
	}
	for ; first != nil; first = first.before {
		if first.before == w {
			first.before = w.before
			return
		}
	}
}

// publish gives a result to all commands that wait for a job.
func (ws *waiters) publish(id string, r result) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := ws.byID[id]; w != nil; w = w.before {
		w.got = &r
		w.wake()
	}
}

// published returns the result that a command was given.
func (ws *waiters) published(w *waiter) (result, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.got == nil {
		return result{}, false
	}
	return *w.got, true
}

// names are the names that only leases have named, up to a number. The others are listed by
// the store.
type names struct {
	most int

	mu    sync.Mutex
	known map[string]bool
}

func (n *names) add(some []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range some {
		if n.known == nil {
			n.known = map[string]bool{}
		}
		if len(n.known) < n.most {
			n.known[name] = true
		}
	}
}

// addTo adds the names to a set.
func (n *names) addTo(all map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		all[name] = true
	}
}
