package amboy

import (
	"fmt"
	"time"
)

// EventKind says what an Event is about.
type EventKind string

// What happens to the jobs of a queue, and to the queue.
const (
	// EventPut: a job was added.
	EventPut EventKind = "put"
	// EventStarted: an attempt begins to run.
	EventStarted EventKind = "started"
	// EventSucceeded: a job ended without an error.
	EventSucceeded EventKind = "succeeded"
	// EventFailed: a job ended with an error.
	EventFailed EventKind = "failed"
	// EventCanceled: a job ended because it was canceled.
	EventCanceled EventKind = "canceled"
	// EventExpired: a job ended because it did not start in time.
	EventExpired EventKind = "expired"
	// EventRetrying: an attempt failed, and another follows.
	EventRetrying EventKind = "retrying"
	// EventSnoozed: a run ended without being an attempt, because the job wants to
	// run again later.
	EventSnoozed EventKind = "snoozed"
	// EventHandedBack: a run was interrupted, and the job is to run again.
	EventHandedBack EventKind = "handed back"
	// EventParked: a job was set aside, because it can't be read here.
	EventParked EventKind = "parked"

	// EventPaused: the queue was paused.
	EventPaused EventKind = "queue paused"
	// EventDraining: the queue takes no new jobs any more.
	EventDraining EventKind = "queue draining"
	// EventResumed: the queue goes on after either.
	EventResumed EventKind = "queue resumed"
	// EventClosed: the queue was closed. It is the last.
	EventClosed EventKind = "queue closed"
)

// IsEnd is true for the kinds of events that end a job for good.
func (k EventKind) IsEnd() bool {
	switch k {
	case EventSucceeded, EventFailed, EventCanceled, EventExpired:
		return true
	default:
		return false
	}
}

// Event is something that happened in a queue, in this process. What other processes
// do with the jobs of a store is not seen here.
type Event struct {
	Kind EventKind
	// Queue is the ID of the queue.
	Queue string
	// Time is when it happened.
	Time time.Time

	// JobID, JobType and Attempt, from 0, say of what job; they are zero for
	// events of the queue.
	JobID   string
	JobType JobType
	Attempt int
	// Err is the error of the attempt. After a panic errors.As finds a
	// *PanicError in it, where the job embeds job.Base.
	Err error
	// Wait is the time from when the attempt could start, because it was put and
	// due, until it did. What was snoozed or handed back counts from the same time.
	// It is set from EventStarted on.
	Wait time.Duration
	// Run is how long the attempt ran. It is set where that has ended.
	Run time.Duration

	// Missed is the number of events before this one that the subscriber did not
	// get, because its buffer was full.
	Missed int
}

// EventSource is implemented by queues that tell what happens in them.
type EventSource interface {
	// SubscribeEvents is what Subscribe calls. buffer is at least 1.
	SubscribeEvents(buffer int) (events <-chan Event, cancel func())
}

// MaxEventBuffer is the largest buffer of a subscription, all of which is allocated
// at once.
const MaxEventBuffer = 1 << 20

// Subscribe returns a channel of what happens in a queue from now on. The queue
// never waits for whoever reads it: an event for which there is no room in the
// buffer, which must be from 1 to MaxEventBuffer, is left out, and the next one says
// how many were. The channel is closed by cancel, which may be called again, and when
// the queue is closed, after EventClosed. A queue without a subscriber makes no events.
//
// Events of one job come in the order in which they happened, with one exception: a
// queue over a store learns that a job was added after the store has it, and then the
// job may have started already. Subscribe returns an error for another buffer and for
// a queue that has no events. It does not block, and is safe for concurrent use.
func Subscribe(q Queue, buffer int) (events <-chan Event, cancel func(), err error) {
	if buffer < 1 || buffer > MaxEventBuffer {
		return nil, nil, fmt.Errorf("subscribing to the events of queue %q: the buffer must be from 1 to %d (is %d)", q.ID(), MaxEventBuffer, buffer)
	}
	source, ok := q.(EventSource)
	if !ok {
		return nil, nil, fmt.Errorf("subscribing to the events of queue %q: a %T has none", q.ID(), q)
	}
	events, cancel = source.SubscribeEvents(buffer)
	return events, cancel, nil
}
