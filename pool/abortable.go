package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mongodb/amboy"
)

// abortablePool is a pool that keeps track of its running jobs.
type abortablePool struct{ *workers }

// NewAbortablePool returns a pool of n workers that can abort single running jobs. The
// queue may be nil, and is then set with SetQueue. If n is less than 1, Start returns an
// error. The pool is an amboy.ResizableRunner and safe for concurrent use.
func NewAbortablePool(n int, q amboy.Queue) amboy.AbortableRunner {
	return newAbortablePool(n, q, takeNext)
}

func newAbortablePool(n int, q amboy.Queue, next nextFunc) *abortablePool {
	w := newWorkers(n, q, next)
	w.running = &runningJobs{byID: map[string]*runningJob{}}
	return &abortablePool{w}
}

// IsRunning reports whether the pool is running the job with that ID. A job counts as
// running from when a worker takes it until its end is reported to the queue. IsRunning
// does not block and is safe for concurrent use.
func (p *abortablePool) IsRunning(id string) bool { return p.running.get(id) != nil }

// RunningJobs lists the IDs of the jobs that the pool is running, sorted. It does not
// block and is safe for concurrent use.
func (p *abortablePool) RunningJobs() []string { return p.running.ids() }

// Abort cancels the context of a running job, with amboy.ErrAborted as its cause, and
// blocks until the job has ended in its queue: as canceled, with at least one error, and
// without a retry. If ctx ends first, Abort returns an error that wraps that of ctx; the
// job is canceled nevertheless.
//
// If the pool is not running the job, Abort returns an error for which
// amboy.IsJobNotFoundError is true. If the job's Run had already returned, Abort waits for
// the job's end and returns such an error too. It returns the queue's error if the job
// could not be completed. It is safe for concurrent use.
func (p *abortablePool) Abort(ctx context.Context, id string) error {
	job := p.running.get(id)
	if job == nil {
		return amboy.NewJobNotFoundErrorf("aborting job %q: it is not running here", id)
	}
	aborted := p.running.abort(job)
	if err := job.wait(ctx); err != nil {
		return err
	}
	if !aborted {
		return amboy.NewJobNotFoundErrorf("aborting job %q: it had already returned", id)
	}
	return nil
}

// AbortAll cancels the contexts of all jobs that are running at the time of the call, as
// Abort does, and then blocks until all of them have ended or ctx has. A job whose Run had
// already returned is not affected. The error joins the errors of completing the jobs.
// AbortAll is safe for concurrent use.
func (p *abortablePool) AbortAll(ctx context.Context) error {
	jobs := p.running.all()
	for _, job := range jobs {
		p.running.abort(job)
	}
	var errs []error
	for _, job := range jobs {
		errs = append(errs, job.wait(ctx))
	}
	return errors.Join(errs...)
}

// runningJobs are the jobs that a pool is running.
type runningJobs struct {
	mu   sync.Mutex
	byID map[string]*runningJob
}

// runningJob is a job that can be aborted.
type runningJob struct {
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed after the job's end was reported to the queue
	err    error         // why reporting failed; set before ended is closed

	// The lock of runningJobs guards these fields, so that abort and finish agree on which
	// came first.
	returned bool
	aborted  bool
}

// add adds a job. Its context derives from ctx.
func (r *runningJobs) add(ctx context.Context, id string) *runningJob {
	job := &runningJob{id: id, ended: make(chan struct{})}
	job.ctx, job.cancel = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[id] = job
	return job
}

// get returns nil if the job is not running.
func (r *runningJobs) get(id string) *runningJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

func (r *runningJobs) all() []*runningJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}

func (r *runningJobs) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.byID))
}

// abort cancels the job's context. It returns false if Run had returned before the job was
// aborted.
func (r *runningJobs) abort(job *runningJob) bool {
	r.mu.Lock()
	if !job.returned {
		job.aborted = true
	}
	aborted := job.aborted
	r.mu.Unlock()
	if aborted {
		job.cancel(amboy.ErrAborted)
	}
	return aborted
}

// finish records that Run has returned, and reports whether the job was aborted before.
func (r *runningJobs) finish(job *runningJob) (aborted bool) {
	r.mu.Lock()
	job.returned = true
	aborted = job.aborted
	r.mu.Unlock()
	job.cancel(nil)
	return aborted
}

// remove removes a job. err is why its end could not be reported to the queue.
func (r *runningJobs) remove(job *runningJob, err error) {
	r.mu.Lock()
	// A job whose lease was lost may have been claimed and added again.
	if r.byID[job.id] == job {
		delete(r.byID, job.id)
	}
	r.mu.Unlock()
	job.err = err
	close(job.ended)
}

// wait waits until the job or ctx has ended.
func (j *runningJob) wait(ctx context.Context) error {
	select {
	case <-j.ended:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of aborted job %q: %w", j.id, ctx.Err())
	}
}
