package queue

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// Control returns the stored control settings of the queue.
func (q *driverQueue) Control(ctx context.Context) (amboy.QueueControl, error) {
	return q.control(ctx, "reading the control", driver.ControlChange{})
}

// Pause keeps the workers of all processes from taking jobs.
func (q *driverQueue) Pause(ctx context.Context) error {
	_, err := q.control(ctx, "pausing", driver.ControlChange{Paused: new(true)})
	return q.publishIfDone(amboy.EventPaused, err)
}

// Drain makes the queue refuse new jobs, in all processes.
func (q *driverQueue) Drain(ctx context.Context) error {
	_, err := q.control(ctx, "draining", driver.ControlChange{Draining: new(true)})
	return q.publishIfDone(amboy.EventDraining, err)
}

// Resume undoes Pause and Drain.
func (q *driverQueue) Resume(ctx context.Context) error {
	_, err := q.control(ctx, "resuming", driver.ControlChange{Paused: new(false), Draining: new(false)})
	return q.publishIfDone(amboy.EventResumed, err)
}

// SetMaxRunning limits the number of jobs that run at once in all processes.
func (q *driverQueue) SetMaxRunning(ctx context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("limiting the running jobs of queue %q: the number must not be negative (is %d)", q.id, n)
	}
	_, err := q.control(ctx, "limiting the running jobs of", driver.ControlChange{MaxRunning: &n})
	return err
}

// SetRate limits how many jobs start in a time in all processes.
func (q *driverQueue) SetRate(ctx context.Context, rate *amboy.Rate) error {
	change, err := rateChange(rate)
	if err != nil {
		return fmt.Errorf("setting the rate of queue %q: %w", q.id, err)
	}
	_, err = q.control(ctx, "setting the rate of", change)
	return err
}

// LimitType limits the jobs of a type in all processes.
func (q *driverQueue) LimitType(ctx context.Context, jobType string, limit amboy.TypeLimit) error {
	_, err := q.control(ctx, fmt.Sprintf("limiting the jobs of type %q in", jobType),
		driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}})
	return err
}

func (q *driverQueue) control(ctx context.Context, doing string, change driver.ControlChange) (amboy.QueueControl, error) {
	control, err := q.driver.Control(ctx, q.name, change)
	if err != nil {
		return control, fmt.Errorf("%s queue %q: %w", doing, q.id, err)
	}
	q.engine.happen(core.Changed{Line: q.line})
	return control, nil
}

// publishIfDone publishes an event of the queue if err is nil. It returns err.
func (q *driverQueue) publishIfDone(kind amboy.EventKind, err error) error {
	if err == nil {
		q.publishQueueEvent(kind, q.engine.now())
	}
	return err
}
