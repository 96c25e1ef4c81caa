// Package events sends the events of a queue to subscribers.
package events

import (
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
)

// Hub sends events to subscribers. It has no goroutine, and never waits for a subscriber.
// The zero value has no subscribers. It is safe for concurrent use.
type Hub struct {
	subscribed atomic.Bool

	mu          sync.Mutex
	closed      bool
	subscribers map[*subscriber]struct{}
}

// subscriber is one subscription.
type subscriber struct {
	// events has room for one event more than requested, which is reserved for the last
	// one.
	events chan amboy.Event
	missed int
}

// Subscribed reports whether there is a subscriber; otherwise events do not have to be
// created. It costs one atomic load.
func (h *Hub) Subscribed() bool { return h.subscribed.Load() }

// Subscribe returns a channel of the events from now on, with a buffer of the given size.
// It is closed by cancel and by Close. After Close it returns a closed channel.
func (h *Hub) Subscribe(buffer int) (events <-chan amboy.Event, cancel func()) {
	s := &subscriber{events: make(chan amboy.Event, buffer+1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(s.events)
		return s.events, func() {}
	}
	if h.subscribers == nil {
		h.subscribers = map[*subscriber]struct{}{}
	}
	h.subscribers[s] = struct{}{}
	h.subscribed.Store(true)
	return s.events, func() { h.remove(s) }
}

func (h *Hub) remove(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subscribers[s]; !ok {
		return
	}
	delete(h.subscribers, s)
	h.subscribed.Store(len(h.subscribers) > 0)
	close(s.events)
}

// Send sends an event to all subscribers whose buffer has room.
func (h *Hub) Send(event amboy.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		if len(s.events) == cap(s.events)-1 {
			s.missed++
			continue
		}
		s.send(event)
	}
}

// send sends an event for which there is room. Readers can only make more room.
func (s *subscriber) send(event amboy.Event) {
	event.Missed, s.missed = s.missed, 0
	s.events <- event
}

// Close sends the last event and closes all channels. Only the first call has an effect.
func (h *Hub) Close(last amboy.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subscribers {
		s.send(last)
		close(s.events)
	}
	h.subscribers = nil
	h.subscribed.Store(false)
}
