package queue

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/wait"
)

var _ amboy.QueueController = (*local)(nil)

// Control returns the control settings of the queue. They are not stored anywhere else.
func (q *local) Control(context.Context) (amboy.QueueControl, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.control, nil
}

// Pause keeps the workers from taking jobs.
func (q *local) Pause(context.Context) error {
	q.setControl(driver.ControlChange{Paused: new(true)})
	return nil
}

// Drain makes the queue refuse new jobs, including those that wait for room.
func (q *local) Drain(context.Context) error {
	q.setControl(driver.ControlChange{Draining: new(true)})
	return nil
}

// Resume undoes Pause and Drain.
func (q *local) Resume(context.Context) error {
	q.setControl(driver.ControlChange{Paused: new(false), Draining: new(false)})
	return nil
}

// SetMaxRunning limits the number of jobs that run at once.
func (q *local) SetMaxRunning(_ context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("limiting the running jobs of queue %q: the number must not be negative (is %d)", q.id, n)
	}
	q.setControl(driver.ControlChange{MaxRunning: &n})
	return nil
}

// setControl changes the control settings, publishes the events of the change, and
// returns the new settings.
func (q *local) setControl(change driver.ControlChange) driver.Control {
	q.mu.Lock()
	q.control = change.Apply(q.control)
	control := q.control
	var refused []*wait.Waiter
	if control.Draining {
		refused = q.takePutters()
	}
	q.unlock()
	for _, w := range refused {
		w.Wake()
	}
	for _, kind := range eventsOf(change) {
		q.publishQueueEvent(kind, q.now())
	}
	return control
}

// eventsOf returns the kinds of events that a control change publishes.
func eventsOf(change driver.ControlChange) (kinds []amboy.EventKind) {
	isSet := func(field *bool, to bool) bool { return field != nil && *field == to }
	if isSet(change.Paused, true) {
		kinds = append(kinds, amboy.EventPaused)
	}
	if isSet(change.Draining, true) {
		kinds = append(kinds, amboy.EventDraining)
	}
	if isSet(change.Paused, false) || isSet(change.Draining, false) {
		kinds = append(kinds, amboy.EventResumed)
	}
	return kinds
}

// mayStart reports whether a worker may take a ready job.
func (q *local) mayStart() bool {
	if q.schedule.Ready() == 0 || q.control.Paused {
		return false
	}
	return q.control.MaxRunning == 0 || q.schedule.Running() < q.control.MaxRunning
}
