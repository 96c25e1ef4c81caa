package queue

import (
	"context"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// work is a claimed record, until what became of it is written.
type work struct {
	record *driver.Record
	lease  driver.Lease
	line   *claimLine

	// The lock of leases guards these.
	job    amboy.Job               // nil until it is handed to a worker
	cancel context.CancelCauseFunc // nil until it has a context
	cause  error                   // why its context ended, or is to end
	// ending is true from when its end is being written.
	ending, ended bool
}

// leases are those of the jobs that run here, or are about to. A job whose lease
// is lost has its context canceled at once, and so has one that somebody cancels.
type leases struct {
	// done is called when a work has run, or is not to run.
	done func(*work)

	mu    sync.Mutex
	held  map[*work]struct{}
	byJob map[amboy.Job]*work
}

func newLeases(done func(*work)) *leases {
	return &leases{done: done, held: map[*work]struct{}{}, byJob: map[amboy.Job]*work{}}
}

// add holds a lease. It tells whether it is the first.
func (l *leases) add(w *work) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[w] = struct{}{}
	return len(l.held) == 1
}

func (l *leases) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) > 0
}

// has tells whether there are leases of a queue.
func (l *leases) has(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.held {
		if w.lease.Queue == queue {
			return true
		}
	}
	return false
}

// all are the leases to be renewed.
func (l *leases) all() []driver.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]driver.Lease, 0, len(l.held))
	for w := range l.held {
		if !w.isLost() {
			all = append(all, w.lease)
		}
	}
	return all
}

func (w *work) isLost() bool { return w.cause == amboy.ErrLeaseLost } //nolint:errorlint // It is never wrapped here.

// start makes known which job a work became. It returns false where the lease is
// lost, and then the work has ended.
func (l *leases) start(w *work, j amboy.Job) bool {
	l.mu.Lock()
	lost := w.isLost()
	if !lost {
		w.job = j
		l.byJob[j] = w
	}
	l.mu.Unlock()
	if lost {
		l.end(w)
	}
	return !lost
}

// of returns the work that a job is; nil where it does not run here.
func (l *leases) of(j amboy.Job) *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byJob[j]
}

// end forgets a lease.
func (l *leases) end(w *work) {
	l.mu.Lock()
	if w.ended {
		l.mu.Unlock()
		return
	}
	w.ended = true
	delete(l.held, w)
	if w.job != nil {
		delete(l.byJob, w.job)
	}
	l.mu.Unlock()
	l.ending(w)
}

// isAborted tells whether somebody wanted the job of a work to be canceled.
func (l *leases) isAborted(w *work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.cause == amboy.ErrAborted //nolint:errorlint // It is never wrapped here.
}

// context derives a context that ends when the lease of a job is lost, or the job
// is to be canceled. A job whose lease was lost is nobody's business here once
// its run has ended.
func (l *leases) context(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	w := l.byJob[j]
	cause := amboy.ErrLeaseLost
	if w != nil {
		w.cancel = cancel
		cause = w.cause
	}
	l.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
	return ctx, func() {
		cancel(context.Canceled)
		l.mu.Lock()
		lost := w != nil && w.isLost()
		l.mu.Unlock()
		if lost {
			l.end(w)
		}
	}
}

// ending says that a job has run, and that its end is being written, after which
// its lease is not lost but over. It is renewed until that is done, which may take
// long.
func (l *leases) ending(w *work) {
	l.mu.Lock()
	first := !w.ending
	w.ending = true
	l.mu.Unlock()
	if first {
		l.done(w)
	}
}

// lose cancels the job that runs under a lease, once.
func (l *leases) lose(ctx context.Context, lease driver.Lease, cause error) {
	w := l.find(lease)
	if w == nil {
		return
	}
	l.mu.Lock()
	first := w.cause == nil && !w.ending
	if first {
		w.cause = cause
	}
	cancel := w.cancel
	l.mu.Unlock()
	if !first {
		return
	}
	if cancel != nil {
		cancel(cause)
	}
	logging.Warning(ctx, message.Fields{
		"message": "canceled a running job",
		"cause":   cause.Error(),
		"queue":   lease.Queue,
		"record":  lease.Name,
		"owner":   lease.Owner,
	})
}

func (l *leases) find(lease driver.Lease) *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.held {
		if w.lease == lease {
			return w
		}
	}
	return nil
}
