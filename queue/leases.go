package queue

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// leases are those of the jobs that run here, or are about to. All of them are renewed by one
// call a period, which never looks at a job; a job whose lease is lost has its
// context canceled at once.
type leases struct {
	extend func(context.Context, []driver.Lease, time.Time) ([]driver.Lease, error)
	period time.Duration
	timer  wakeTimer

	mu   sync.Mutex
	held map[string]*heldLease // by job ID
}

type heldLease struct {
	lease  driver.Lease
	lost   bool
	cancel context.CancelCauseFunc // nil until the job has a context
}

func newLeases(timeout time.Duration, extend func(context.Context, []driver.Lease, time.Time) ([]driver.Lease, error)) *leases {
	l := &leases{extend: extend, period: timeout / 4, held: map[string]*heldLease{}}
	l.timer.fire = l.renew
	return l
}

func (l *leases) add(id string, lease driver.Lease) {
	l.mu.Lock()
	last := l.held[id]
	l.held[id] = &heldLease{lease: lease}
	first := len(l.held) == 1
	l.mu.Unlock()
	if first {
		l.timer.set(time.Now().Add(l.period))
	}
	if last != nil && last.cancel != nil {
		// The job was lost here, and is given to another worker of this queue.
		last.cancel(amboy.ErrLeaseLost)
	}
}

func (l *leases) get(id string) (driver.Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.held[id]
	if !ok {
		return driver.Lease{}, false
	}
	return h.lease, true
}

// holds tells whether a job has that lease, and has not lost it. One that was lost
// is forgotten.
func (l *leases) holds(id string, lease driver.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.held[id]
	if !ok || h.lease != lease {
		return false
	}
	if h.lost {
		delete(l.held, id)
	}
	return !h.lost
}

// remove forgets a lease, unless the job has got another since.
func (l *leases) remove(id string, lease driver.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[id]; ok && h.lease == lease {
		delete(l.held, id)
	}
}

// context derives a context that ends when the lease of a job is lost.
func (l *leases) context(ctx context.Context, id string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	h, ok := l.held[id]
	lost := !ok || h.lost
	if ok {
		h.cancel = cancel
	}
	l.mu.Unlock()
	if lost {
		cancel(amboy.ErrLeaseLost)
	}
	return ctx, func() { cancel(context.Canceled) }
}

// renew extends the leases, and cancels the jobs of those that are lost.
func (l *leases) renew() {
	l.mu.Lock()
	held := len(l.held)
	all := make([]driver.Lease, 0, held)
	for _, h := range l.held {
		if !h.lost {
			all = append(all, h.lease)
		}
	}
	l.mu.Unlock()
	if held == 0 {
		return
	}
	l.timer.set(time.Now().Add(l.period))
	if len(all) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), l.period)
	defer cancel()
	lost, err := l.extend(ctx, all, time.Now())
	if err != nil {
		logging.Error(ctx, message.Fields{
			"message": "could not renew the leases of running jobs",
			"leases":  len(all),
			"error":   err.Error(),
		})
	}
	for _, lease := range lost {
		l.lose(lease)
	}
}

// lose cancels the job that runs under a lease.
func (l *leases) lose(lost driver.Lease) {
	l.mu.Lock()
	var cancel context.CancelCauseFunc
	for _, h := range l.held {
		if h.lease == lost {
			h.lost = true
			cancel = h.cancel
		}
	}
	l.mu.Unlock()
	if cancel != nil {
		cancel(amboy.ErrLeaseLost)
	}
	logging.Warning(context.Background(), message.Fields{
		"message": "lost the lease of a running job",
		"record":  lost.Name,
		"owner":   lost.Owner,
	})
}

func (l *leases) stop() { l.timer.stop() }
