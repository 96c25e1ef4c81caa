package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/wait"
)

var (
	_ amboy.QueueController = (*local)(nil)
	_ amboy.RateController  = (*local)(nil)
)

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

// SetRate limits how many jobs start in a time.
func (q *local) SetRate(_ context.Context, r *amboy.Rate) error {
	change, err := rateChange(r)
	if err != nil {
		return fmt.Errorf("setting the rate of queue %q: %w", q.id, err)
	}
	q.setControl(change)
	return nil
}

// rateChange returns the change that sets a rate, or removes it if it is nil.
func rateChange(r *amboy.Rate) (driver.ControlChange, error) {
	change := driver.ControlChange{Rate: r, NoRate: r == nil}
	return change, change.Validate()
}

// setControl changes the control settings, publishes the events of the change, and
// returns the new settings.
func (q *local) setControl(change driver.ControlChange) driver.Control {
	q.mu.Lock()
	q.control = change.Apply(q.control)
	control := q.control
	if control.Rate == nil {
		q.bucket = 0
	}
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

// mayStart reports whether a worker may take a ready job. If only the rate forbids that, a worker
// is woken when it does no longer.
func (q *local) mayStart() bool {
	if q.schedule.Ready() == 0 || q.control.IsStopped() {
		return false
	}
	if q.control.MaxRunning > 0 && q.schedule.Running() >= q.control.MaxRunning {
		return false
	}
	r := q.control.Rate
	if r == nil || q.bucket.Tokens(*r, q.rateNow()) > 0 {
		return true
	}
	q.rates.set(time.Now().Add(q.bucket.Wait(*r, q.rateNow())))
	return false
}

// startRated wakes a worker when the rate lets a job start.
func (q *local) startRated() {
	q.mu.Lock()
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
}

// rateNow is the time by which the rate is measured.
func (q *local) rateNow() int64 { return rate.After(time.Since(q.opened)) }
