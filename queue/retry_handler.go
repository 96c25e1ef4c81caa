package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

var (
	errRetryHandlerNotStarted = errors.New("retry handler is not started")
	errRetryHandlerClosed     = errors.New("retry handler is closed")
	errNoRetryQueue           = errors.New("retry handler has no queue")
	errAttemptLimit           = errors.New("job has reached its maximum attempt limit")
	errRetryLockHeld          = errors.New("somebody else retries it")
	errNoRetryNeeded          = errors.New("it does not ask for a retry any more")
)

// BasicRetryHandler is an amboy.RetryHandler that works on any
// amboy.RetryableQueue. Its workers replace each job that is handed over by its
// next attempt; a job without an attempt left ends, and its attempt errors say so.
//
// The next attempt is a copy of the job, made through its stored form, so its
// type must be registered. What is stored of a job (arguments, scopes,
// priority, dependency, retry settings, and the errors of earlier attempts)
// goes into the copy. Its times are new: it waits and expires as the job's
// retry settings say. The wait is counted from the end of the attempt before, and the
// time in which it must start from the moment when it is made.
//
// A queue whose store takes the next attempt of a job with the end of this one (see
// driver.Features) does that by itself, as the options of the handler say, and hands over
// the jobs that have no next attempt.
//
// A queue that fails is tried again, as the amboy.RetryHandlerOptions say, until it
// takes the next attempt; the workers do other jobs meanwhile. Only what the job
// itself decides ends it: it has no attempt left, its retry policy or another of its
// methods panics, or its next attempt is not valid. It is safe for concurrent use.
type BasicRetryHandler struct {
	opts    amboy.RetryHandlerOptions
	now     func() time.Time
	wake    chan struct{} // holds a token for each worker that is to look for work
	closing chan struct{}
	workers tasks

	mu      sync.Mutex
	queue   amboy.RetryableQueue
	started bool
	closed  bool
	cancel  context.CancelFunc
	timer   *time.Timer // fires when the first delayed retry is due
	backlog retryBacklog
}

var _ amboy.RetryHandler = (*BasicRetryHandler)(nil)

// NewBasicRetryHandler makes a handler of the jobs of q. q may be nil; then
// SetQueue must come before Start. It returns an error for options that are not
// valid; those that are zero get their defaults.
func NewBasicRetryHandler(q amboy.RetryableQueue, opts amboy.RetryHandlerOptions) (*BasicRetryHandler, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a retry handler: %w", err)
	}
	backlog := retryBacklog{maxJobs: opts.MaxCapacity}
	if opts.IsUnlimitedMaxCapacity() {
		backlog.maxJobs = math.MaxInt
	}
	return &BasicRetryHandler{
		opts:    opts,
		now:     time.Now,
		wake:    make(chan struct{}, opts.NumWorkers),
		closing: make(chan struct{}),
		queue:   q,
		backlog: backlog,
	}, nil
}

// SetQueue sets the queue whose jobs are retried. It returns an error for nil,
// and one that wraps amboy.ErrAlreadyStarted once the handler has started.
func (h *BasicRetryHandler) SetQueue(q amboy.RetryableQueue) error {
	if q == nil {
		return errors.New("setting the queue of a retry handler: queue must not be nil")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started {
		return fmt.Errorf("setting the queue of a retry handler: %w", amboy.ErrAlreadyStarted)
	}
	h.queue = q
	return nil
}

// Start starts the workers. They end with ctx, as at Close; call Close all the
// same, to wait for them. It does nothing on a started handler, and returns an
// error without a queue and on a closed one. It does not block.
func (h *BasicRetryHandler) Start(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started && !h.closed {
		return nil
	}
	ctx, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("starting a retry handler: %w", err)
	}
	for range h.opts.NumWorkers {
		h.workers.Go(func() { h.work(ctx) })
	}
	return nil
}

// begin does what comes before the first worker, and returns the context of its
// work. The caller holds the lock.
func (h *BasicRetryHandler) begin(ctx context.Context) (context.Context, error) {
	switch {
	case h.closed:
		return nil, errRetryHandlerClosed
	case h.queue == nil:
		return nil, errNoRetryQueue
	}
	ctx, h.cancel = context.WithCancel(ctx)
	h.timer = time.NewTimer(never)
	h.started = true
	return ctx, nil
}

// Started is true between Start and Close, or the end of the context that was
// given to Start.
func (h *BasicRetryHandler) Started() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started && !h.closed
}

// Put hands a job over, whose attempt must have ended. It does nothing with an
// attempt that is handed over already and not yet done. It never blocks and is
// never full: of the jobs beyond MaxCapacity only the ID and the attempt are
// kept, and the job is read back from the queue when its turn comes. It returns
// an *amboy.InvalidJobError for a nil job, and an error where the handler is
// not started or is closed.
func (h *BasicRetryHandler) Put(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("handing a job to the retry handler: %w",
			&amboy.InvalidJobError{Field: "job", Rule: "must not be nil"})
	}
	r := &jobRetry{retryKey: retryKey{j.ID(), j.RetryInfo().CurrentAttempt}, job: j}
	added, err := h.add(r)
	if err != nil {
		return fmt.Errorf("handing job %q to the retry handler: %w", r.jobID, err)
	}
	if added {
		h.wakeWorkers(1)
	}
	return nil
}

func (h *BasicRetryHandler) add(r *jobRetry) (added bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, errRetryHandlerClosed
	case !h.started:
		return false, errRetryHandlerNotStarted
	}
	return h.backlog.add(r), nil
}

// retryCloseGrace is how long Close waits for workers whose work it has canceled.
const retryCloseGrace = 100 * time.Millisecond

// Close ends the handler: it waits for the jobs that the workers are at until
// ctx ends, then cancels those, and returns when every worker is gone, or 100
// milliseconds later: a queue that ignores its context then keeps the worker. Jobs
// that wait, for a worker or for another try, stay in the queue as retrying. A
// handler that is closed can't be started again; closing it again only waits.
func (h *BasicRetryHandler) Close(ctx context.Context) {
	h.stop() // From here on started and cancel do not change.
	if !h.started {
		return
	}
	defer h.cancel()
	defer context.AfterFunc(ctx, h.cancel)()
	late, cancel := afterEnd(ctx, retryCloseGrace)
	defer cancel()
	h.workers.wait(late)
}

// stop makes the workers end after the jobs that they are at, and drops what
// waits.
func (h *BasicRetryHandler) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	close(h.closing)
	h.backlog = retryBacklog{}
	if h.started {
		h.timer.Stop()
	}
}

// work is the life of a worker.
func (h *BasicRetryHandler) work(ctx context.Context) {
	defer h.stop()
	for ctx.Err() == nil {
		if r := h.take(); r != nil {
			h.handle(ctx, r)
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.closing:
			return
		case <-h.wake:
		case <-h.timer.C:
		}
	}
}

// take returns the next retry that is due, nil where there is none.
func (h *BasicRetryHandler) take() *jobRetry {
	h.mu.Lock()
	due := h.backlog.release(h.now())
	r := h.backlog.take()
	if due > 0 {
		h.setTimer()
	}
	h.mu.Unlock()
	// The timer wakes one worker, whatever the number of retries that are due.
	h.wakeWorkers(due - 1)
	return r
}

// wakeWorkers makes up to n workers look for work. A token that finds no room
// is not missed: then every worker has one.
func (h *BasicRetryHandler) wakeWorkers(n int) {
	for range n {
		select {
		case h.wake <- struct{}{}:
		default:
			return
		}
	}
}

// setTimer sets the timer to the first delayed retry. The caller holds the
// lock.
func (h *BasicRetryHandler) setTimer() {
	wait := never
	if due, ok := h.backlog.nextDue(); ok {
		wait = due.Sub(h.now())
	}
	h.timer.Reset(wait)
}

// handle makes one try at a retry, and arranges for the next if the queue refused it.
func (h *BasicRetryHandler) handle(ctx context.Context, r *jobRetry) {
	r.begin(h.now())
	err := errorOfPanic(func() error { return h.try(ctx, r) })
	switch {
	case err == nil:
	case ctx.Err() != nil || isRetrySettled(err):
		logging.Debug(ctx, func() message.Fields { return r.describe("left a retrying job as it is", err) })
	default:
		h.tryLater(ctx, r, err)
		return
	}
	h.forget(r)
}

// retryTryTime bounds one try, so that a queue that does not answer holds a worker
// no longer.
const retryTryTime = 10 * time.Second

// try replaces the job by its next attempt, or ends it if it can't have one.
func (h *BasicRetryHandler) try(ctx context.Context, r *jobRetry) error {
	ctx, cancel := context.WithTimeout(ctx, retryTryTime)
	defer cancel()
	if r.job == nil {
		job, err := h.queue.GetAttempt(ctx, r.jobID, r.attempt)
		if err != nil {
			return fmt.Errorf("reading the job back: %w", err)
		}
		r.job = job
	}
	next, err := h.next(r)
	if err == nil {
		err = errorOfPanic(func() error { return h.queue.CompleteRetryingAndPut(ctx, r.job, next) })
	}
	if isDecidedByJob(err) {
		return h.end(ctx, r, err)
	}
	return err
}

// next makes the next attempt of a job. An error of the job itself, rather than one
// that says that it is not to be retried here, is a *noNextAttemptError.
func (h *BasicRetryHandler) next(r *jobRetry) (next amboy.Job, err error) {
	err = errorOfPanic(func() error {
		if !r.job.RetryInfo().ShouldRetry() {
			return errNoRetryNeeded
		}
		if held := h.lock(r); held != nil {
			return held
		}
		now := h.now()
		r.job.UpdateRetryInfo(amboy.JobRetryOptions{Start: &r.start, End: &now})
		if r.job.RetryInfo().GetRemainingAttempts() == 0 {
			return &noNextAttemptError{errAttemptLimit}
		}
		next, err = nextAttempt(r.job, formatOf(h.queue), h.opts.RetryPolicy, now)
		return asNoNextAttempt(err)
	})
	var panicked *amboy.PanicError
	if errors.As(err, &panicked) {
		err = asNoNextAttempt(err)
	}
	return next, err
}

// lock takes the job's lock, so that a queue whose jobs several handlers see
// knows who retries it. The queue decides all the same, by its atomic write.
func (h *BasicRetryHandler) lock(r *jobRetry) error {
	if r.locked {
		return nil
	}
	if err := r.job.Lock(h.queue.ID(), h.queue.Info().LockTimeout); err != nil {
		return fmt.Errorf("%w: %w", errRetryLockHeld, err)
	}
	r.locked = true
	return nil
}

// end ends a job without another attempt, and adds the cause to its attempt errors.
func (h *BasicRetryHandler) end(ctx context.Context, r *jobRetry, cause error) error {
	now := h.now()
	if !r.ended {
		addRetryError(r.job, r.tries, cause, now)
		r.ended = true
		h.logEnd(ctx, r, cause)
	}
	r.job.UpdateRetryInfo(amboy.JobRetryOptions{End: &now})
	return h.queue.CompleteRetrying(ctx, r.job)
}

// logEnd logs why a job that has attempts left gets none of them.
func (h *BasicRetryHandler) logEnd(ctx context.Context, r *jobRetry, cause error) {
	if errors.Is(cause, errAttemptLimit) {
		return
	}
	fields := r.describe("ended a job whose next attempt can't be made", cause)
	var panicked *amboy.PanicError
	if errors.As(cause, &panicked) {
		fields["stack"] = string(panicked.Stack)
	}
	logging.Error(ctx, fields)
}

// noNextAttemptError says that a job itself is the reason why it has no next attempt,
// and not the store.
type noNextAttemptError struct{ error }

func (e *noNextAttemptError) Unwrap() error { return e.error }

func asNoNextAttempt(err error) error {
	if err == nil {
		return nil
	}
	return &noNextAttemptError{err}
}

// isDecidedByJob is true for an error that no further try would avoid, because the job
// is its reason.
func isDecidedByJob(err error) bool {
	var none *noNextAttemptError
	var invalid *amboy.InvalidJobError
	return errors.As(err, &none) || errors.As(err, &invalid)
}

// isRetrySettled is true for an error that says that there is nothing left to
// do: the next attempt exists, the job or its lease is somebody else's, or the
// queue is closed.
func isRetrySettled(err error) bool {
	if amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err) {
		return true
	}
	for _, settled := range []error{errNoRetryNeeded, errRetryLockHeld, amboy.ErrLeaseLost, amboy.ErrQueueClosed} {
		if errors.Is(err, settled) {
			return true
		}
	}
	return amboy.IsJobNotFoundError(err)
}

// lastRetryPause is the longest wait between two tries, unless RetryBackoff is longer.
const lastRetryPause = 5 * time.Second

// tryLater makes a retry wait for its next try. When a round of tries is over it logs
// that, and from then on the waits are twice as long.
func (h *BasicRetryHandler) tryLater(ctx context.Context, r *jobRetry, err error) {
	if h.isRoundOver(r) {
		logging.Error(ctx, r.describe("could not retry a job yet; trying again until the queue takes it", err))
		r.roundTries = 0
		r.pause = min(2*h.pauseOf(r), max(lastRetryPause, h.opts.RetryBackoff))
	}
	h.delay(r, h.pauseOf(r))
}

// isRoundOver reports whether a round has used up its tries or its time.
func (h *BasicRetryHandler) isRoundOver(r *jobRetry) bool {
	spent := h.now().Sub(r.roundStart) + h.pauseOf(r)
	return r.roundTries >= h.opts.MaxRetryAttempts || spent >= h.opts.MaxRetryTime
}

func (h *BasicRetryHandler) pauseOf(r *jobRetry) time.Duration {
	return max(r.pause, h.opts.RetryBackoff)
}

func (h *BasicRetryHandler) delay(r *jobRetry, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	r.due = h.now().Add(pause)
	h.backlog.delay(r)
	h.setTimer()
}

func (h *BasicRetryHandler) forget(r *jobRetry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backlog.forget(r)
}

// errorOfPanic calls f, and makes a *amboy.PanicError of its panic.
func errorOfPanic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
