package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/loop"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// Dispatcher keeps the locks of jobs that run outside a queue's runner. It is for
// implementations of amboy.Queue outside this package: the queues of this package renew
// the locks of the jobs that Next returns themselves. Implementations are safe for
// concurrent use.
type Dispatcher interface {
	// Dispatch locks a job for the queue, marks it as running and saves it. The lock is
	// then renewed until Complete, Release or Close. Dispatch returns an error if the job
	// is nil, is already dispatched, is locked by another owner or can't be saved, and
	// after Close.
	Dispatch(ctx context.Context, j amboy.Job) error
	// Release stops renewing a job's lock, releases the lock and saves the job. It does
	// nothing for a job that is not dispatched.
	Release(ctx context.Context, j amboy.Job)
	// Complete stops renewing a job's lock. It does nothing for a job that is not
	// dispatched.
	Complete(ctx context.Context, j amboy.Job)
	// Close releases all jobs. It returns when the renewal has ended, or an error if ctx
	// ends first.
	Close(ctx context.Context) error
}

// NewDispatcher returns a Dispatcher for the jobs of a queue. Every quarter of the
// queue's lock timeout it calls Lock on each job, also while the Lock of another job blocks.
// It reads no other part of a job while the job runs.
func NewDispatcher(q amboy.Queue) Dispatcher {
	d := &dispatcher{queue: q, jobs: map[string]*dispatched{}}
	d.timer.Fire = d.renew
	return d
}

type dispatcher struct {
	queue amboy.Queue
	timer lifecycle.WakeTimer
	calls loop.Calls // of renewOne, by job ID

	mu     sync.Mutex
	closed bool
	jobs   map[string]*dispatched
}

// dispatched is a job from Dispatch until Complete or Release.
type dispatched struct{ job amboy.Job }

// period is the time between two renewals.
func (d *dispatcher) period() time.Duration {
	timeout := d.queue.Info().LockTimeout
	if timeout <= 0 {
		timeout = amboy.LockTimeout
	}
	return timeout / 4
}

func (d *dispatcher) Dispatch(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("dispatching a job: %w", &amboy.InvalidJobError{Field: "job", Rule: "must not be nil"})
	}
	if err := d.add(j); err != nil {
		return fmt.Errorf("dispatching job %q: %w", j.ID(), err)
	}
	if err := d.lock(ctx, j); err != nil {
		d.remove(j)
		return fmt.Errorf("dispatching job %q: %w", j.ID(), err)
	}
	d.timer.Set(time.Now().Add(d.period()))
	if d.isClosed() { // Close may have released the job before it was locked.
		d.remove(j)
		d.unlock(ctx, j)
		return fmt.Errorf("dispatching job %q: %w", j.ID(), amboy.ErrQueueClosed)
	}
	return nil
}

func (d *dispatcher) add(j amboy.Job) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return amboy.ErrQueueClosed
	}
	if _, ok := d.jobs[j.ID()]; ok {
		return fmt.Errorf("already dispatched")
	}
	d.jobs[j.ID()] = &dispatched{j}
	return nil
}

func (d *dispatcher) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// remove reports whether the job was dispatched.
func (d *dispatcher) remove(j amboy.Job) bool {
	if amboy.IsNilJob(j) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.jobs[j.ID()]
	delete(d.jobs, j.ID())
	return ok
}

func (d *dispatcher) lock(ctx context.Context, j amboy.Job) error {
	owner, timeout := d.queue.ID(), d.queue.Info().LockTimeout
	if err := j.Lock(owner, timeout); err != nil {
		return err
	}
	status := j.Status()
	status.InProgress, status.Completed = true, false
	j.SetStatus(status)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Start: time.Now()})
	if err := d.queue.Save(ctx, j); err != nil {
		j.Unlock(owner, timeout)
		return err
	}
	return nil
}

// renewalsAtOnce is the number of locks that are renewed concurrently. A renewal that takes long does
// not count.
const renewalsAtOnce = 8

// renew renews all locks.
func (d *dispatcher) renew() {
	d.mu.Lock()
	jobs := maps.Clone(d.jobs)
	d.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	next := time.Now().Add(d.period())
	ids := slices.Collect(maps.Keys(jobs))
	loop.ForEach(&d.calls, renewalsAtOnce, ids, func(id string) string { return id }, func(id string) { d.renewOne(id, jobs[id]) })
	d.timer.Set(next)
}

func (d *dispatcher) renewOne(id string, one *dispatched) {
	if !d.has(id, one) {
		return
	}
	// Job.Lock renews the lock. Reading the status and setting it again would undo
	// changes that the running job makes in between.
	err := contain.Alone(func() error { return one.job.Lock(d.queue.ID(), d.queue.Info().LockTimeout) })
	if err == nil || !d.drop(id, one) {
		return
	}
	logging.Warning(context.Background(), message.Fields{
		"message": "lost the lock of a running job",
		"job_id":  id,
		"queue":   amboy.NameOf(d.queue),
		"error":   err.Error(),
	})
}

func (d *dispatcher) has(id string, one *dispatched) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[id] == one
}

// drop removes a job, and reports whether it was still dispatched.
func (d *dispatcher) drop(id string, one *dispatched) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs[id] != one {
		return false
	}
	delete(d.jobs, id)
	return true
}

func (d *dispatcher) Release(ctx context.Context, j amboy.Job) {
	if d.remove(j) {
		d.unlock(ctx, j)
	}
}

// unlock releases the lock of a job and saves it.
func (d *dispatcher) unlock(ctx context.Context, j amboy.Job) {
	j.Unlock(d.queue.ID(), d.queue.Info().LockTimeout)
	if err := d.queue.Save(ctx, j); err != nil {
		logging.Error(ctx, message.Fields{
			"message": "could not save a job that was released",
			"job_id":  j.ID(),
			"queue":   amboy.NameOf(d.queue),
			"error":   err.Error(),
		})
	}
}

func (d *dispatcher) Complete(_ context.Context, j amboy.Job) { d.remove(j) }

func (d *dispatcher) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	jobs := make([]amboy.Job, 0, len(d.jobs))
	for _, one := range d.jobs {
		jobs = append(jobs, one.job)
	}
	d.mu.Unlock()
	for _, j := range jobs {
		d.Release(ctx, j)
	}
	d.timer.Stop()
	ended := d.timer.Calls.Wait(ctx) && lifecycle.InTime(ctx, func() error {
		d.calls.Wait()
		return nil
	}) == nil
	if !ended {
		return fmt.Errorf("waiting for the renewal of locks to end: %w", context.Cause(ctx))
	}
	return nil
}
