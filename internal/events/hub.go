// Package events sends what happens in a queue to those who want to know.
package events

import (
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
)

// Hub sends events to subscribers. It has no goroutine, and never waits for one. The
// zero value has no subscribers. It is safe for concurrent use.
type Hub struct {
	subscribed atomic.Bool

	mu          sync.Mutex
	closed      bool
	subscribers map[*subscriber]struct{}
}

// subscriber is somebody who wants to know.
type subscriber struct {
	// events has room for one more than was asked for, which the last event takes.
	events chan amboy.Event
	missed int
}

// Subscribed tells whether there is anybody to send events to, so that none need be
// made. It costs as much as to read a variable.
func (h *Hub) Subscribed() bool { return h.subscribed.Load() }

// Subscribe returns a channel of the events from now on, with a buffer of that size.
// It is closed by cancel and by Close, and is closed already after Close.
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
	if _, there := h.subscribers[s]; !there {
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

// send sends an event for which there is room: whoever reads only makes more.
func (s *subscriber) send(event amboy.Event) {
	event.Missed, s.missed = s.missed, 0
	s.events <- event
}

// Close sends the last event, and closes all channels. After the first time it does
// nothing.
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
