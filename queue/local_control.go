package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

var _ amboy.QueueController = (*local)(nil)

// Control returns what is set for the queue, which it forgets when it ends.
func (q *local) Control(context.Context) (amboy.QueueControl, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.control, nil
}

// Pause keeps the workers from taking jobs.
func (q *local) Pause(context.Context) error {
	q.setControl(func(c *amboy.QueueControl) { c.Paused = true })
	q.tellOfQueue(amboy.EventPaused, time.Now())
	return nil
}

// Drain makes the queue refuse new jobs, also those that wait for room.
func (q *local) Drain(context.Context) error {
	q.mu.Lock()
	q.control.Draining = true
	refused := q.callPutters()
	q.mu.Unlock()
	for _, w := range refused {
		w.Wake()
	}
	q.tellOfQueue(amboy.EventDraining, time.Now())
	return nil
}

// Resume takes Pause and Drain back.
func (q *local) Resume(context.Context) error {
	q.setControl(func(c *amboy.QueueControl) { c.Paused, c.Draining = false, false })
	q.tellOfQueue(amboy.EventResumed, time.Now())
	return nil
}

// SetMaxRunning limits the number of jobs that run at once.
func (q *local) SetMaxRunning(_ context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("limiting the running jobs of queue %q: the number must not be negative (is %d)", q.id, n)
	}
	q.setControl(func(c *amboy.QueueControl) { c.MaxRunning = n })
	return nil
}

func (q *local) setControl(change func(*amboy.QueueControl)) {
	q.mu.Lock()
	change(&q.control)
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
}

// mayStart tells whether a worker may take one of the jobs that are ready.
func (q *local) mayStart() bool {
	if q.schedule.Ready() == 0 || q.control.Paused {
		return false
	}
	return q.control.MaxRunning == 0 || q.schedule.Running() < q.control.MaxRunning
}
