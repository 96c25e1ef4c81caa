package engine

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// Control returns the stored control settings of the queue.
func (q *Queue) Control(ctx context.Context) (amboy.QueueControl, error) {
	return q.control(ctx, "reading the control", driver.ControlChange{})
}

// Pause keeps the workers of all processes from taking jobs.
func (q *Queue) Pause(ctx context.Context) error {
	_, err := q.control(ctx, "pausing", driver.ControlChange{Paused: new(true)})
	return q.publishIfDone(amboy.EventPaused, err)
}

// Drain makes the queue refuse new jobs, in all processes.
func (q *Queue) Drain(ctx context.Context) error {
	_, err := q.control(ctx, "draining", driver.ControlChange{Draining: new(true)})
	return q.publishIfDone(amboy.EventDraining, err)
}

// Resume undoes Pause and Drain.
func (q *Queue) Resume(ctx context.Context) error {
	_, err := q.control(ctx, "resuming", driver.ControlChange{Paused: new(false), Draining: new(false)})
	return q.publishIfDone(amboy.EventResumed, err)
}

// SetMaxRunning limits the number of jobs that run at once in all processes.
func (q *Queue) SetMaxRunning(ctx context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("limiting the running jobs of queue %q: the number must not be negative (is %d)", q.ID(), n)
	}
	_, err := q.control(ctx, "limiting the running jobs of", driver.ControlChange{MaxRunning: &n})
	return err
}

// SetRate limits how fast jobs start, over all processes.
func (q *Queue) SetRate(ctx context.Context, rate *amboy.Rate) error {
	change, err := jobstate.RateChange(rate)
	if err != nil {
		return fmt.Errorf("setting the rate of queue %q: %w", q.ID(), err)
	}
	_, err = q.control(ctx, "setting the rate of", change)
	return err
}

// LimitType limits the jobs of a type in all processes.
func (q *Queue) LimitType(ctx context.Context, jobType string, limit amboy.TypeLimit) error {
	_, err := q.control(ctx, fmt.Sprintf("limiting the jobs of type %q in", jobType),
		driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}})
	return err
}

func (q *Queue) control(ctx context.Context, doing string, change driver.ControlChange) (amboy.QueueControl, error) {
	control, err := q.Driver.Control(ctx, q.Name, change)
	if err != nil {
		return control, fmt.Errorf("%s queue %q: %w", doing, q.ID(), err)
	}
	if change != (driver.ControlChange{}) {
		q.Engine.Happen(core.Controlled{Line: q.Line})
	}
	return control, nil
}

// publishIfDone publishes an event of the queue if err is nil. It returns err.
func (q *Queue) publishIfDone(kind amboy.EventKind, err error) error {
	if err == nil {
		q.PublishQueueEvent(kind, q.Engine.Now())
	}
	return err
}
