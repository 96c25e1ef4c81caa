package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/loop"
)

// target is the queue in which a scheduler puts jobs.
type target interface {
	// name is the name of the queue in messages.
	name() string
	// open returns the queue, and opens it if necessary.
	open(ctx context.Context) (openQueue, error)
	now() time.Time
	// isGone reports whether an error means that the queue is closed for good.
	isGone(err error) bool
	// reportInterval is how often an unchanged schedule is reported to the queue, so that
	// the queue does not drop it.
	reportInterval() time.Duration
}

// putTime limits a Put, like loop.CallTime other calls. It is longer because Put also waits while the
// queue is full.
const putTime = lateness / 2

// openQueue is a queue and the optional interfaces that a scheduler uses.
type openQueue struct {
	amboy.Queue
	marker amboy.QueueMarker
	teller amboy.ScheduleTeller // nil if the queue does not implement it
}

func newOpenQueue(q amboy.Queue) (openQueue, error) {
	marker, ok := q.(amboy.QueueMarker)
	if !ok {
		return openQueue{}, fmt.Errorf("it must be an amboy.QueueMarker (is a %T)", q)
	}
	teller, _ := q.(amboy.ScheduleTeller)
	return openQueue{q, marker, teller}, nil
}

// mark calls Mark, for a limited time.
func (q openQueue) mark(ctx context.Context, name string, at time.Time) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	return q.marker.Mark(ctx, name, at)
}

// oneQueue is a target that stays open.
type oneQueue struct{ openQueue }

func (t oneQueue) name() string                            { return t.ID() }
func (t oneQueue) open(context.Context) (openQueue, error) { return t.openQueue, nil }
func (t oneQueue) now() time.Time                          { return amboy.Now(t.Queue) }
func (t oneQueue) isGone(err error) bool                   { return errors.Is(err, amboy.ErrQueueClosed) }
func (t oneQueue) reportInterval() time.Duration           { return time.Hour }

// groupedQueue is a queue of a group. It is opened when there is something to do, and may
// be pruned in between.
type groupedQueue struct {
	group amboy.QueueGroup
	id    string
}

func (t groupedQueue) name() string { return t.id }

func (t groupedQueue) open(ctx context.Context) (openQueue, error) {
	ctx, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	q, err := t.group.Get(ctx, t.id)
	if err != nil {
		return openQueue{}, fmt.Errorf("opening the queue: %w", err)
	}
	return newOpenQueue(q)
}

func (t groupedQueue) now() time.Time                { return time.Now() }
func (t groupedQueue) isGone(err error) bool         { return errors.Is(err, amboy.ErrGroupClosed) }
func (t groupedQueue) reportInterval() time.Duration { return 12 * time.Hour } // rare, because it opens the queue
