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

// Change describes a change that Subscribe reports. The zero value is a change after which
// there is nothing new to claim.
type Change struct {
	// MayClaim is false if the driver knows that there is nothing new to claim.
	MayClaim bool
	// InOneQueue is true if everything new is in Queue. Otherwise it may be in any queue.
	InOneQueue bool
	Queue      string
	// Cancels is true if a request to cancel a running job may be new, and its process should ask
	// for it at once (see Driver.CancelRequests). Otherwise it asks a little later.
	Cancels bool
}

// ClaimSubscriber is implemented by a Driver that saves work if it does not have to notify of all
// changes by other processes.
type ClaimSubscriber interface {
	// SubscribeToClaimable is Subscribe for a subscriber that waits for something to claim, or
	// for requests to cancel what it runs. The driver does not have to notify it of other changes
	// by other processes. While all claims return as much as they ask for, requests to cancel and
	// changes of controls are enough.
	SubscribeToClaimable(notify func(Change)) (cancel func())
}

// Anywhere is a change after which there may be something new to claim in any queue.
var Anywhere = Change{MayClaim: true}

// In returns a change after which there may be something new to claim in one queue.
func In(queue string) Change { return Change{MayClaim: true, InOneQueue: true, Queue: queue} }

// With returns one change that stands for both.
func (c Change) With(other Change) Change {
	cancels := c.Cancels || other.Cancels
	c.Cancels, other.Cancels = false, false
	both := Anywhere
	switch {
	case !other.MayClaim || c == other:
		both = c
	case !c.MayClaim:
		both = other
	}
	both.Cancels = cancels
	return both
}

// InQueuesOf returns the change of several items, each of which belongs to a queue: In if all
// belong to the same queue, and otherwise Anywhere. Without items it is the zero Change.
func InQueuesOf[T any](items []T, queueOf func(T) string) Change {
	if len(items) == 0 {
		return Change{}
	}
	queue := queueOf(items[0])
	for _, item := range items[1:] {
		if queueOf(item) != queue {
			return Anywhere
		}
	}
	return In(queue)
}

// Subscribers is a set of functions that a driver calls after a change. It implements
// Driver.Subscribe. The zero value is empty. It is safe for concurrent use.
type Subscribers struct {
	mu   sync.Mutex
	all  map[int]func(Change)
	last int
	// list is a copy of all that Notify reads without a lock.
	list atomic.Pointer[[]func(Change)]
}

// Subscribe adds a function until cancel is called. It does not block. A Notify under way
// may still call the function after cancel.
func (s *Subscribers) Subscribe(notify func(Change)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int]func(Change){}
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
	list := make([]func(Change), 0, len(s.all))
	for _, notify := range s.all {
		list = append(list, notify)
	}
	s.list.Store(&list)
}

// Notify calls the functions, which must not block. It holds no lock, so functions may
// subscribe and cancel.
//
//nolint:contextcheck // A subscriber has no context: the process that changes the store calls it.
func (s *Subscribers) Notify(change Change) {
	list := s.list.Load()
	if list == nil {
		return
	}
	for _, notify := range *list {
		call(notify, change)
	}
}

// call calls a subscriber. A panic is logged and not passed on: the change was made, and
// the calling goroutine may serve all subscribers.
func call(notify func(Change), change Change) {
	defer func() {
		if value := recover(); value != nil {
			logging.Error(context.Background(), message.Fields{
				"message": "a subscriber of a driver panicked",
				"error":   fmt.Sprint(value),
				"stack":   string(debug.Stack()),
			})
		}
	}()
	notify(change)
}
