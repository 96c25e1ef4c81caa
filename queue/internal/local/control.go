package local

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/typelimit"
	"github.com/mongodb/amboy/queue/internal/wait"
)

var (
	_ amboy.QueueController = (*Queue)(nil)
	_ amboy.RateController  = (*Queue)(nil)
	_ amboy.TypeLimiter     = (*Queue)(nil)
)

// Control returns the control settings of the queue. They are not stored anywhere else.
func (q *Queue) Control(context.Context) (amboy.QueueControl, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.control, nil
}

// Pause keeps the workers from taking jobs.
func (q *Queue) Pause(context.Context) error {
	_, err := q.setControl(driver.ControlChange{Paused: new(true)})
	return err
}

// Drain makes the queue refuse new jobs, including those that wait for room.
func (q *Queue) Drain(context.Context) error {
	_, err := q.setControl(driver.ControlChange{Draining: new(true)})
	return err
}

// Resume undoes Pause and Drain.
func (q *Queue) Resume(context.Context) error {
	_, err := q.setControl(driver.ControlChange{Paused: new(false), Draining: new(false)})
	return err
}

// SetMaxRunning limits the number of jobs that run at once.
func (q *Queue) SetMaxRunning(_ context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("limiting the running jobs of queue %q: the number must not be negative (is %d)", q.ID(), n)
	}
	_, err := q.setControl(driver.ControlChange{MaxRunning: &n})
	return err
}

// SetRate limits how fast jobs start.
func (q *Queue) SetRate(_ context.Context, r *amboy.Rate) error {
	change, err := jobstate.RateChange(r)
	if err != nil {
		return fmt.Errorf("setting the rate of queue %q: %w", q.ID(), err)
	}
	_, err = q.setControl(change)
	return err
}

// LimitType limits the jobs of a type.
func (q *Queue) LimitType(_ context.Context, jobType string, limit amboy.TypeLimit) error {
	change := driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}}
	err := change.Validate()
	if err == nil {
		_, err = q.setControl(change)
	}
	if err != nil {
		return fmt.Errorf("limiting the jobs of type %q in queue %q: %w", jobType, q.ID(), err)
	}
	return nil
}

// setControl changes the control settings, publishes the events of the change, and returns the
// new settings. It returns an error if too many types would have a limit.
func (q *Queue) setControl(change driver.ControlChange) (driver.Control, error) {
	q.mu.Lock()
	control, err := change.Apply(q.control)
	if err != nil {
		q.mu.Unlock()
		return driver.Control{}, err
	}
	q.control = control
	if control.Rate == nil {
		q.bucket = 0
	}
	q.typeBuckets.Keep(control.Types)
	var refused []*wait.Waiter
	if control.Draining {
		refused = q.takePutters()
	}
	q.unlock()
	for _, w := range refused {
		w.Wake()
	}
	for _, kind := range eventsOf(change) {
		q.PublishQueueEvent(kind, q.now())
	}
	return control, nil
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
func (q *Queue) mayStart() bool {
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
	q.rates.Set(time.Now().Add(q.bucket.Wait(*r, q.rateNow())))
	return false
}

// startNext takes the ready job that should run first; nil if none may start.
func (q *Queue) startNext() *localEntry {
	if !q.mayStart() {
		return nil
	}
	var e *localEntry
	if len(q.control.Types) == 0 {
		e = q.schedule.Next()
	} else {
		e = q.startWithinLimits()
	}
	if r := q.control.Rate; r != nil && e != nil {
		q.bucket = q.bucket.Take(*r, q.rateNow(), 1)
	}
	return e
}

// startWithinLimits is startNext for a queue in which types have limits. If only a rate keeps jobs
// from starting, a worker is woken when it does no longer.
func (q *Queue) startWithinLimits() *localEntry {
	for {
		room := typelimit.NewRoom(q.control.Types, q.schedule.RunningOf, q.typeBuckets, q.rateNow())
		except := schedule.NewExcept(nil).Within(room)
		e := q.schedule.NextBut(except)
		if buckets, changed := room.Settle(); changed {
			q.typeBuckets = buckets
		}
		if later := room.Wait(); e == nil && later > 0 {
			q.rates.Set(time.Now().Add(later))
		}
		if e != nil || !except.More {
			return e
		}
		// Others may take the lock before the rest of a large backlog is skipped.
		q.mu.Unlock()
		q.mu.Lock()
		if !q.mayStart() {
			return nil
		}
	}
}

// startRated wakes a worker when the rate lets a job start.
func (q *Queue) startRated() {
	q.mu.Lock()
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
}

// rateNow is the time by which the rate is measured.
func (q *Queue) rateNow() int64 { return rate.After(time.Since(q.opened)) }

// CloseIfIdle implements amboy.IdleCloser.
func (q *Queue) CloseIfIdle(ctx context.Context) (closed bool, err error) {
	q.mu.Lock()
	idle := q.schedule.Idle() && q.putters.Len() == 0 && q.wokenPutters == 0
	if idle {
		q.Phase.Store(int32(lifecycle.Stopped)) // under the lock, which Put holds when it reads the phase
	}
	q.mu.Unlock()
	if idle {
		q.Close(ctx)
	}
	return idle, nil
}
