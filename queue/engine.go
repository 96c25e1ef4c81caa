package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
)

// engine is the queue over a driver. It claims records for the workers that are
// free, brings them to life, renews their leases while they run, and writes what
// became of them.
type engine struct {
	lifecycle
	driver      driver.Driver
	ownsDriver  bool
	format      amboy.Format
	lockTimeout time.Duration
	claims      *claims
	leases      *leases
	unsubscribe func()
	closeOnce   sync.Once

	maintenance      wakeTimer
	maintainInterval time.Duration

	handlerMu sync.Mutex
	handler   amboy.RetryHandler

	completeMu sync.Mutex
	complete   completion
}

var (
	_ amboy.RetryableQueue   = (*engine)(nil)
	_ amboy.JobReleaser      = (*engine)(nil)
	_ amboy.JobContexter     = (*engine)(nil)
	_ amboy.CompletionWaiter = (*engine)(nil)
)

// newEngine makes an engine with options that were validated.
func newEngine(opts DriverQueueOptions) (*engine, error) {
	q := &engine{
		lifecycle:        newLifecycle("driver"),
		driver:           opts.Driver,
		ownsDriver:       opts.CloseDriver,
		format:           opts.Format,
		lockTimeout:      opts.LockTimeout,
		maintainInterval: opts.Retryable.StaleRetryingMonitorInterval,
	}
	q.claims = newClaims(q.claim, q.timeCame)
	q.leases = newLeases(opts.LockTimeout, opts.Driver.Extend)
	q.maintenance.fire = q.maintain
	q.runner = pool.NewLocalWorkers(opts.NumWorkers, q)
	handler, err := NewBasicRetryHandler(q, opts.Retryable.RetryHandler)
	if err != nil {
		return nil, err
	}
	q.handler = handler
	q.unsubscribe = func() {}
	q.claims.poll = opts.PollInterval
	if notifier, ok := q.driver.(driver.Notifier); ok {
		q.claims.poll = 0
		q.unsubscribe = notifier.Subscribe(func() { q.claims.signal() })
	}
	return q, nil
}

func (q *engine) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: q.isStarted(), LockTimeout: q.lockTimeout}
}

func (q *engine) SetRunner(r amboy.Runner) error { return q.setRunner(r, q) }

func (q *engine) RetryHandler() amboy.RetryHandler {
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	return q.handler
}

func (q *engine) SetRetryHandler(h amboy.RetryHandler) error {
	if h == nil {
		return fmt.Errorf("setting the retry handler of queue %q: it must not be nil", q.id)
	}
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	if !q.is(created) {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.id, amboy.ErrAlreadyStarted)
	}
	if err := h.SetQueue(q); err != nil {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.id, err)
	}
	q.handler = h
	return nil
}

// Start starts the runner and the retry handler, and takes up the jobs that
// earlier processes left behind.
func (q *engine) Start(ctx context.Context) error {
	if err := q.start(ctx, q.stopClaiming); err != nil {
		return err
	}
	if err := q.RetryHandler().Start(ctx); err != nil {
		q.Close(ctx)
		return fmt.Errorf("starting the retry handler of queue %q: %w", q.id, err)
	}
	q.claims.resume()
	q.maintenance.set(time.Now())
	return nil
}

func (q *engine) stopClaiming() { q.claims.stop() }

// driverTimeout bounds the calls on the driver that no caller waits for, and the
// one at Close that hands back what was claimed and not run.
const driverTimeout = 10 * time.Second

func (q *engine) Close(ctx context.Context) {
	q.close(ctx, q.stopClaiming)
	q.RetryHandler().Close(ctx)
	q.closeOnce.Do(func() { q.letGo(ctx) })
}

// letGo ends what is left of a queue without workers, and hands back the jobs
// that they would have run.
func (q *engine) letGo(ctx context.Context) {
	q.unsubscribe()
	q.maintenance.stop()
	q.leases.stop()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
	defer cancel()
	for _, r := range q.claims.leftover() {
		q.handBack(ctx, r.JobID(), driver.HandBack{Lease: driver.LeaseOf(r)})
	}
	if !q.ownsDriver {
		return
	}
	if err := q.driver.Close(ctx); err != nil {
		logging.Error(ctx, q.failure("could not close the driver", "", err))
	}
}

// failure describes something that went wrong, for the log.
func (q *engine) failure(what, id string, err error) message.Fields {
	fields := message.Fields{"message": what, "queue": q.id, "error": err.Error()}
	if id != "" {
		fields["job_id"] = id
	}
	return fields
}

// maintain hands back the leases of workers that died, and gives the retry
// handler the jobs that an earlier one left.
func (q *engine) maintain() {
	ctx, cancel := context.WithTimeout(context.Background(), q.maintainInterval)
	defer cancel()
	recovered, err := q.driver.RecoverStale(ctx, time.Now().Add(-q.lockTimeout))
	if err != nil {
		logging.Error(ctx, q.failure("could not recover stale jobs", "", err))
	}
	if recovered > 0 {
		logging.Warning(ctx, message.Fields{"message": "recovered jobs whose worker is gone", "queue": q.id, "jobs": recovered})
		q.claims.signal()
	}
	for _, r := range q.list(ctx, amboy.StateRetrying) {
		if j := q.resolve(ctx, r); j != nil {
			q.handOver(ctx, j)
		}
	}
	if !q.isStopped() {
		q.maintenance.set(time.Now().Add(q.maintainInterval))
	}
}
