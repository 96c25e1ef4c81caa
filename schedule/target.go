package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// target is the queue that a scheduler puts jobs in.
type target interface {
	// name is the queue's in messages.
	name() string
	// open returns the queue for what is to be done now.
	open(ctx context.Context) (openQueue, error)
	now() time.Time
	// isGone reports whether an error says that the queue never comes back.
	isGone(err error) bool
	// tellAgain is how often the queue is told of a schedule that stays as it is, so
	// that it is not forgotten.
	tellAgain() time.Duration
}

// openQueue is a queue with what a scheduler needs of it.
type openQueue struct {
	amboy.Queue
	marker amboy.QueueMarker
	teller amboy.ScheduleTeller // nil if the queue is none
}

func newOpenQueue(q amboy.Queue) (openQueue, error) {
	marker, ok := q.(amboy.QueueMarker)
	if !ok {
		return openQueue{}, fmt.Errorf("it must be an amboy.QueueMarker (is a %T)", q)
	}
	teller, _ := q.(amboy.ScheduleTeller)
	return openQueue{q, marker, teller}, nil
}

// oneQueue is a queue that stays open.
type oneQueue struct{ openQueue }

func (t oneQueue) name() string                            { return t.ID() }
func (t oneQueue) open(context.Context) (openQueue, error) { return t.openQueue, nil }
func (t oneQueue) now() time.Time                          { return amboy.Now(t.Queue) }
func (t oneQueue) isGone(err error) bool                   { return errors.Is(err, amboy.ErrQueueClosed) }
func (t oneQueue) tellAgain() time.Duration                { return time.Hour }

// groupedQueue is a queue of a group, which is opened when there is something to do,
// and may be pruned in between.
type groupedQueue struct {
	group amboy.QueueGroup
	id    string
}

func (t groupedQueue) name() string { return t.id }

func (t groupedQueue) open(ctx context.Context) (openQueue, error) {
	q, err := t.group.Get(ctx, t.id)
	if err != nil {
		return openQueue{}, fmt.Errorf("opening the queue: %w", err)
	}
	return newOpenQueue(q)
}

func (t groupedQueue) now() time.Time           { return time.Now() }
func (t groupedQueue) isGone(err error) bool    { return errors.Is(err, amboy.ErrGroupClosed) }
func (t groupedQueue) tellAgain() time.Duration { return 12 * time.Hour } // as it opens the queue
