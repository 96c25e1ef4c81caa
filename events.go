package amboy

import (
	"fmt"
	"time"
)

// EventKind is the kind of an Event.
type EventKind string

// The events of the jobs of a queue, and of the queue itself.
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
	// EventSnoozed: a run ended without counting as an attempt, because the job asked
	// to run again later.
	EventSnoozed EventKind = "snoozed"
	// EventHandedBack: a run was interrupted, and the job will run again.
	EventHandedBack EventKind = "handed back"
	// EventParked: a job was set aside, because it can't be decoded or was interrupted
	// too often.
	EventParked EventKind = "parked"

	// EventPaused: the queue was paused.
	EventPaused EventKind = "queue paused"
	// EventDraining: the queue accepts no new jobs.
	EventDraining EventKind = "queue draining"
	// EventResumed: the queue was resumed after a pause or a drain.
	EventResumed EventKind = "queue resumed"
	// EventClosed: the queue was closed. It is the last event.
	EventClosed EventKind = "queue closed"
)

// IsEnd reports whether k is an event that ends a job for good.
func (k EventKind) IsEnd() bool {
	switch k {
	case EventSucceeded, EventFailed, EventCanceled, EventExpired:
		return true
	default:
		return false
	}
}

// Event is something that happened in a queue in this process. A queue reports no events
// of other processes that share its store.
type Event struct {
	Kind EventKind
	// Queue is the ID of the queue.
	Queue string
	// Time is when it happened.
	Time time.Time

	// JobID, JobType and Attempt (from 0) identify the job. They are zero for events of
	// the queue.
	JobID   string
	JobType JobType
	Attempt int
	// Err is the error of the attempt. After a panic of a job that embeds job.Base,
	// errors.As finds a *PanicError in it.
	Err error
	// Wait is the time from when the attempt could start, because it was put and due,
	// until it started. A job that was snoozed or handed back still counts from that
	// time. It is set from EventStarted on.
	Wait time.Duration
	// Run is how long the attempt ran. It is set if the attempt has ended.
	Run time.Duration

	// Missed is the number of events before this one that the subscriber missed because
	// its buffer was full.
	Missed int
}

// EventSource is implemented by queues that report events.
type EventSource interface {
	// SubscribeEvents is called by Subscribe. buffer is at least 1.
	SubscribeEvents(buffer int) (events <-chan Event, cancel func())
}

// MaxEventBuffer is the largest buffer of a subscription. The whole buffer is allocated
// at once.
const MaxEventBuffer = 1 << 20

// Subscribe returns a channel of the events of a queue from now on. The queue never waits
// for the reader. If the buffer is full, it drops the event, and the next event's Missed
// counts it. buffer must be from 1 to MaxEventBuffer. The channel is closed by cancel,
// which may be called more than once, and after EventClosed when the queue is closed. A
// queue without a subscriber creates no events.
//
// Events of one job come in the order in which they happened, with one exception: a queue
// with a store learns that a job was added after the store has it, and by then the job may
// have started. Subscribe returns an error for an invalid buffer and for a queue that is
// not an EventSource. It does not block and is safe for concurrent use.
func Subscribe(q Queue, buffer int) (events <-chan Event, cancel func(), err error) {
	source, err := as[EventSource](q, "subscribing to the events of")
	if err != nil {
		return nil, nil, err
	}
	if buffer < 1 || buffer > MaxEventBuffer {
		return nil, nil, fmt.Errorf("subscribing to the events of queue %q: the buffer must be from 1 to %d (is %d)", q.ID(), MaxEventBuffer, buffer)
	}
	events, cancel = source.SubscribeEvents(buffer)
	return events, cancel, nil
}
