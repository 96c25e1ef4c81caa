package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// engineOptions configure an engine.
type engineOptions struct {
	driver      driver.Driver
	ownsDriver  bool // closes it at Close
	format      amboy.Format
	workers     int
	lockTimeout time.Duration
	retryable   RetryableQueueOptions
}

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

func newEngine(kind string, opts engineOptions) (*engine, error) {
	q := &engine{
		lifecycle:        newLifecycle(kind),
		driver:           opts.driver,
		ownsDriver:       opts.ownsDriver,
		format:           opts.format,
		lockTimeout:      opts.lockTimeout,
		maintainInterval: opts.retryable.StaleRetryingMonitorInterval,
	}
	q.claims = newClaims(q.claim, q.timeCame)
	q.leases = newLeases(opts.lockTimeout, opts.driver.Extend)
	q.maintenance.fire = q.maintain
	q.runner = pool.NewLocalWorkers(opts.workers, q)
	handler, err := NewBasicRetryHandler(q, opts.retryable.RetryHandler)
	if err != nil {
		return nil, err
	}
	q.handler = handler
	q.unsubscribe = func() {}
	if notifier, ok := q.driver.(driver.Notifier); ok {
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
	q.unsubscribe()
	q.maintenance.stop()
	q.leases.stop()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
	defer cancel()
	for _, r := range q.claims.leftover() {
		q.handBack(ctx, driver.HandBack{Lease: driver.LeaseOf(r)})
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

func (q *engine) Put(ctx context.Context, j amboy.Job) error {
	return q.insert(ctx, []amboy.Job{j})
}

func (q *engine) PutMany(ctx context.Context, jobs []amboy.Job) error {
	return q.insert(ctx, jobs)
}

func (q *engine) insert(ctx context.Context, jobs []amboy.Job) error {
	if err := q.accepts(true); err != nil {
		return fmt.Errorf("putting jobs: %w", err)
	}
	now := time.Now()
	var errs []error
	var records []*driver.Record
	var marked []amboy.Job // by the record; nil where the creation time was set
	for _, j := range jobs {
		r, unset, err := q.newRecord(j, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = append(records, r)
		if !unset {
			j = nil
		}
		marked = append(marked, j)
	}
	results, err := q.insertWhileOpen(ctx, records)
	for i, r := range records {
		failure := err
		if err == nil {
			failure = results[i]
		}
		if failure == nil {
			if deadline := r.TimeInfo.DispatchBy; !deadline.IsZero() {
				q.claims.timer.set(deadline.Add(1)) // even where no worker will look
			}
			continue
		}
		errs = append(errs, fmt.Errorf("putting job %q: %w", r.JobID(), failure))
		if marked[i] != nil {
			unmarkCreated(marked[i])
		}
	}
	q.claims.signal()
	return amboy.CollateWriteErrors(errs)
}

// insertWhileOpen inserts records, which may mean to wait for room, until the
// queue stops.
func (q *engine) insertWhileOpen(ctx context.Context, records []*driver.Record) ([]error, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer q.onStop(func() { cancel(amboy.ErrQueueClosed) })()
	errs, err := q.driver.Insert(ctx, records)
	if errors.Is(context.Cause(ctx), amboy.ErrQueueClosed) {
		for i, failure := range errs {
			if errors.Is(failure, context.Canceled) {
				errs[i] = amboy.ErrQueueClosed
			}
		}
	}
	return errs, err
}

// newRecord encodes a job that is to be put. It tells whether it set the job's
// creation time.
func (q *engine) newRecord(j amboy.Job, now time.Time) (r *driver.Record, unset bool, err error) {
	err = amboy.ValidateJob(j)
	if err != nil {
		return nil, false, err
	}
	unset = markCreated(j, now)
	r, err = q.record(j)
	if err != nil {
		if unset {
			unmarkCreated(j)
		}
		return nil, false, err
	}
	// A job that comes from elsewhere starts anew, with its history.
	r.Status = amboy.JobStatusInfo{Attempts: r.Status.Attempts, DroppedErrors: r.Status.DroppedErrors}
	return r, unset, nil
}

// record encodes a job.
func (q *engine) record(j amboy.Job) (*driver.Record, error) {
	r, err := registry.MakeJobInterchange(j, q.format)
	if err != nil {
		return nil, err
	}
	r.Name = driver.RecordName(j.ID(), r.RetryInfo)
	return r, nil
}

func (q *engine) claim(ctx context.Context, limit int) (driver.Claimed, error) {
	claimed, err := q.driver.Claim(ctx, driver.ClaimRequest{Owner: q.id, Limit: limit, Now: time.Now()})
	if err != nil && ctx.Err() == nil {
		logging.Error(ctx, q.failure("could not claim jobs", "", err))
	}
	return claimed, err
}

// timeCame lets a worker look for jobs that are due. Where all are busy it ends
// the jobs that have expired, for which no worker is needed.
func (q *engine) timeCame() {
	if q.claims.signal() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	claimed, err := q.claim(ctx, 0)
	if err != nil {
		q.claims.timer.set(time.Now().Add(claimRetry))
		return
	}
	for _, r := range claimed.Records {
		q.revive(ctx, r)
	}
	if !claimed.Next.IsZero() {
		q.claims.timer.set(claimed.Next)
	}
}

func (q *engine) Next(ctx context.Context) amboy.Job {
	for {
		r := q.claims.next(ctx)
		if r == nil {
			return nil
		}
		if j := q.revive(ctx, r); j != nil {
			return j
		}
	}
}

// revive makes a job of a claimed record. It returns nil where the job is not to
// run: one that can't be read is parked, and one that expired, or whose
// dependency says so, is ended or handed back.
func (q *engine) revive(ctx context.Context, r *driver.Record) amboy.Job {
	// What was claimed must be dealt with, whatever becomes of the worker.
	ctx = context.WithoutCancel(ctx)
	lease := driver.LeaseOf(r)
	j, err := r.Resolve(q.format)
	if err != nil {
		logging.Error(ctx, q.failure("parked a job that can't be read", r.JobID(), err))
		q.handBack(ctx, driver.HandBack{Lease: lease, Park: true, Reason: err.Error()})
		return nil
	}
	if r.TimeInfo.IsStale() {
		markExpired(j)
		q.endUnrun(ctx, j, lease)
		return nil
	}
	var failed []string
	if r.Dependency != nil {
		failed = r.Dependency.Failed
	}
	switch state, reason := consult(j.Dependency(), failed); state {
	case dependency.Ready:
		q.leases.add(j.ID(), lease)
		return j
	case dependency.Blocked:
		// The longer a job has waited, the longer it waits until it is asked
		// again.
		pause := nextRecheck(time.Since(r.TimeInfo.Created))
		q.handBack(ctx, driver.HandBack{Lease: lease, NotBefore: time.Now().Add(pause), Reason: "its dependency says that it must wait"})
	case dependency.Unresolved:
		j.AddError(reason)
		doNotRetry(j)
		q.endUnrun(ctx, j, lease)
	case dependency.Passed:
		q.endUnrun(ctx, j, lease)
	}
	return nil
}

// endUnrun ends a job for good that was claimed and is not run.
func (q *engine) endUnrun(ctx context.Context, j amboy.Job, lease driver.Lease) {
	if err := q.end(ctx, j, lease); err != nil {
		logging.Error(ctx, q.failure("could not end a job that is not to run", j.ID(), err))
	}
}

func (q *engine) handBack(ctx context.Context, h driver.HandBack) {
	errs, err := q.driver.Release(ctx, []driver.HandBack{h})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		logging.Error(ctx, q.failure("could not hand a job back", h.Lease.Name, err))
	}
	q.claims.signal()
}

// JobContext derives a context that ends when the job's lease is lost.
func (q *engine) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	return q.leases.context(ctx, j.ID())
}

// Complete ends an attempt of a job, under the lease that the job has here, or
// else the one that is stored.
func (q *engine) Complete(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.id)
	}
	lease, ok := q.leases.get(j.ID())
	if !ok {
		r, err := q.driver.Get(ctx, j.ID())
		if err != nil {
			return fmt.Errorf("completing job %q: %w", j.ID(), err)
		}
		lease = driver.LeaseOf(r)
	}
	if err := q.end(ctx, j, lease); err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	if j.RetryInfo().ShouldRetry() {
		q.handOver(ctx, j)
	}
	return nil
}

// end writes that an attempt ended. Whatever comes of that, the lease is not
// renewed any more: a job whose end could not be written is run again.
func (q *engine) end(ctx context.Context, j amboy.Job, lease driver.Lease) error {
	defer q.leases.remove(j.ID(), lease)
	markComplete(j, time.Now())
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return err
	}
	errs, err := q.driver.Complete(ctx, []driver.Completion{{Lease: lease, Record: r}})
	if err == nil {
		err = errs[0]
	}
	if err == nil && !r.RetryInfo.ShouldRetry() {
		q.ended(ctx, j.ID())
	}
	q.claims.signal()
	return err
}

// recordOrLast encodes a job that ended. Where that is impossible, because of
// what the job made of itself, the job fails for that, and its last stored form
// is used.
func (q *engine) recordOrLast(ctx context.Context, j amboy.Job) (*driver.Record, error) {
	r, err := q.record(j)
	if err == nil {
		return r, nil
	}
	last, getErr := q.driver.Get(ctx, j.ID())
	if getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	j.AddError(fmt.Errorf("what the job left behind can't be stored: %w", err))
	last.Status, last.TimeInfo, last.RetryInfo = j.Status(), j.TimeInfo(), j.RetryInfo()
	return last, nil
}

// handOver gives a job to the retry handler. Where that fails, the job stays in
// the store as retrying, and maintenance hands it over later.
func (q *engine) handOver(ctx context.Context, j amboy.Job) {
	if err := q.RetryHandler().Put(ctx, j); err != nil && !q.isStopped() {
		logging.Error(ctx, q.failure("could not hand a job to the retry handler; it is tried again later", j.ID(), err))
	}
}

// Release hands a job back whose run was interrupted.
func (q *engine) Release(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("releasing a job of queue %q: the job must not be nil", q.id)
	}
	lease, ok := q.leases.get(j.ID())
	if !ok {
		return fmt.Errorf("releasing job %q: it does not run in queue %q: %w", j.ID(), q.id, amboy.ErrLeaseLost)
	}
	errs, err := q.driver.Release(ctx, []driver.HandBack{{Lease: lease}})
	if err == nil {
		err = errs[0]
	}
	q.leases.remove(j.ID(), lease)
	q.claims.signal()
	if err != nil {
		return fmt.Errorf("releasing job %q: %w", j.ID(), err)
	}
	return nil
}

func (q *engine) CompleteRetryingAndPut(ctx context.Context, toComplete, toPut amboy.Job) error {
	if amboy.IsNilJob(toComplete) || amboy.IsNilJob(toPut) {
		return fmt.Errorf("retrying a job of queue %q: neither job must be nil", q.id)
	}
	if toComplete.ID() != toPut.ID() {
		return fmt.Errorf("retrying job %q: its next attempt must have the same ID (is %q)", toComplete.ID(), toPut.ID())
	}
	now := time.Now()
	next, unset, err := q.newRecord(toPut, now)
	if err != nil {
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), err)
	}
	ended, err := q.endedRetry(ctx, toComplete, now)
	if err == nil {
		err = q.driver.Retry(ctx, ended, next)
	}
	if err != nil {
		if unset {
			unmarkCreated(toPut)
		}
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), err)
	}
	q.claims.signal()
	return nil
}

func (q *engine) CompleteRetrying(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("ending the retry of a job of queue %q: the job must not be nil", q.id)
	}
	ended, err := q.endedRetry(ctx, j, time.Now())
	if err == nil {
		err = q.driver.EndRetry(ctx, ended)
	}
	if err != nil {
		return fmt.Errorf("ending the retry of job %q: %w", j.ID(), err)
	}
	q.ended(ctx, j.ID())
	q.claims.signal()
	return nil
}

// endedRetry is the record of a job whose retry is done with.
func (q *engine) endedRetry(ctx context.Context, j amboy.Job, now time.Time) (*driver.Record, error) {
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return nil, err
	}
	r.RetryInfo.NeedsRetry = false
	if r.RetryInfo.End.IsZero() {
		r.RetryInfo.End = now
	}
	r.Status.Completed, r.Status.InProgress = true, false
	return r, nil
}

func (q *engine) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.id)
	}
	r, err := q.record(j)
	if err == nil {
		err = q.driver.Save(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("saving job %q: %w", j.ID(), err)
	}
	return nil
}

func (q *engine) Get(ctx context.Context, id string) (amboy.Job, bool) {
	r, err := q.driver.Get(ctx, id)
	if err != nil {
		if !amboy.IsJobNotFoundError(err) {
			logging.Error(ctx, q.failure("could not get a job", id, err))
		}
		return nil, false
	}
	j := q.resolve(ctx, r)
	return j, j != nil
}

// resolve makes a job of a record for somebody who wants to look at it; nil
// where it can't be read.
func (q *engine) resolve(ctx context.Context, r *driver.Record) amboy.Job {
	j, err := r.Resolve(q.format)
	if err != nil {
		logging.Warning(ctx, q.failure("a stored job can't be read", r.JobID(), err))
		return nil
	}
	return j
}

func (q *engine) GetAttempt(ctx context.Context, id string, attempt int) (amboy.Job, error) {
	attempts, err := q.GetAllAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, j := range attempts {
		if j.RetryInfo().CurrentAttempt == attempt {
			return j, nil
		}
	}
	return nil, amboy.NewJobNotFoundErrorf("queue %q has no attempt %d of job %q", q.id, attempt, id)
}

func (q *engine) GetAllAttempts(ctx context.Context, id string) ([]amboy.Job, error) {
	records, err := q.driver.Attempts(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	if len(records) == 0 {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no retryable job %q", q.id, id)
	}
	attempts := make([]amboy.Job, len(records))
	for i, r := range records {
		attempts[i], err = r.Resolve(q.format)
		if err != nil {
			return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
		}
	}
	return attempts, nil
}

func (q *engine) Results(ctx context.Context) <-chan amboy.Job {
	records := q.list(ctx, amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired)
	var jobs []amboy.Job
	for _, r := range records {
		if j := q.resolve(ctx, r); j != nil {
			jobs = append(jobs, j)
		}
	}
	return stream(ctx, &q.lifecycle, jobs, func(j amboy.Job) amboy.Job { return j })
}

func (q *engine) JobInfo(ctx context.Context) <-chan amboy.JobInfo {
	return stream(ctx, &q.lifecycle, q.list(ctx), func(r *driver.Record) amboy.JobInfo {
		info := amboy.JobInfo{
			ID:       r.JobID(),
			Type:     amboy.JobType{Name: r.Type, Version: r.Version},
			Status:   r.Status,
			Time:     r.TimeInfo,
			Retry:    r.RetryInfo,
			Priority: r.Priority,
		}
		info.State = amboy.StateOf(info, time.Now())
		return info
	})
}

func (q *engine) list(ctx context.Context, states ...amboy.JobState) []*driver.Record {
	records, err := q.driver.List(ctx, states...)
	if err != nil {
		logging.Error(ctx, q.failure("could not list jobs", "", err))
	}
	return records
}

func (q *engine) Stats(ctx context.Context) amboy.QueueStats {
	stats, err := q.driver.Stats(ctx)
	if err != nil {
		logging.Error(ctx, q.failure("could not count jobs", "", err))
		stats.Err = err
	}
	return stats
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
