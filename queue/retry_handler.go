package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

var (
	errRetryHandlerNotStarted = errors.New("retry handler is not started")
	errRetryHandlerClosed     = errors.New("retry handler is closed")
	errNoRetryQueue           = errors.New("retry handler has no queue")
	errRetryLockHeld          = errors.New("another handler retries the job")
	errNoRetryNeeded          = errors.New("job no longer asks for a retry")
)

// BasicRetryHandler is an amboy.RetryHandler that works on any amboy.RetryableQueue. Its
// workers replace each job that is handed over by the job's next attempt. A job without
// an attempt left ends, and an attempt error records why.
//
// The next attempt is a copy of the job, made through its stored form, so the type of the
// job must be registered. The copy contains everything that is stored about a job:
// arguments, scopes, priority, dependency, retry settings, and the errors of earlier
// attempts. Its times are new: the delay of the job's retry settings counts from the end
// of the previous attempt, and the dispatch-by time from the moment when the copy is made.
//
// A queue whose store can write the next attempt together with the end of the previous
// one (see driver.Features) does so itself, with the options of the handler. It hands over
// only the jobs that have no next attempt.
//
// If the queue returns an error, the handler tries again, as configured by
// amboy.RetryHandlerOptions, until the queue accepts the next attempt. The workers handle
// other jobs meanwhile. A retry ends without a next attempt only for a reason in the job
// itself: it has no attempt left, its retry policy or another of its methods panics, or
// its next attempt is not valid. BasicRetryHandler is safe for concurrent use.
type BasicRetryHandler struct {
	opts    amboy.RetryHandlerOptions
	now     func() time.Time
	wake    chan struct{} // holds a token for each worker to wake
	closing chan struct{}
	workers lifecycle.Tasks

	mu      sync.Mutex
	queue   amboy.RetryableQueue
	started bool
	closed  bool
	working bool            // the workers were started
	ctx     context.Context // of the workers; set by Start
	cancel  context.CancelFunc
	timer   *time.Timer // fires when the first delayed retry is due; set with the workers
	backlog retryBacklog
}

var _ amboy.RetryHandler = (*BasicRetryHandler)(nil)

// NewBasicRetryHandler returns a handler for the jobs of q. If q is nil, SetQueue must be
// called before Start. It returns an error if the options are not valid. Options that are
// zero get their defaults.
func NewBasicRetryHandler(q amboy.RetryableQueue, opts amboy.RetryHandlerOptions) (*BasicRetryHandler, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a retry handler: %w", err)
	}
	backlog := newRetryBacklog(opts.MaxCapacity)
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

// SetQueue sets the queue whose jobs are retried. It returns an error if q is nil, and
// one that wraps amboy.ErrAlreadyStarted after Start.
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

// Start makes the handler accept jobs. Its workers start with the first one. They end when
// ctx ends, as at Close; Close must be called even then, to wait for them. Start does
// nothing on a started handler. It returns an error if the handler has no queue or is
// closed. It does not block.
func (h *BasicRetryHandler) Start(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isClosed():
		return fmt.Errorf("starting a retry handler: %w", errRetryHandlerClosed)
	case h.started:
		return nil
	case h.queue == nil:
		return fmt.Errorf("starting a retry handler: %w", errNoRetryQueue)
	}
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.started = true
	return nil
}

// isClosed reports whether the handler is closed, or the context of Start has ended. The
// caller holds the lock.
func (h *BasicRetryHandler) isClosed() bool { return h.closed || h.started && h.ctx.Err() != nil }

// startWorkers starts the workers, once. Most handlers never get a job, and need no goroutine.
func (h *BasicRetryHandler) startWorkers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.working || h.isClosed() {
		return
	}
	h.working = true
	h.timer = time.NewTimer(never)
	for range h.opts.NumWorkers {
		h.workers.Go(func() { h.work(h.ctx) })
	}
}

// Started reports whether the handler has started, and neither Close was called nor the
// context of Start has ended.
func (h *BasicRetryHandler) Started() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started && !h.isClosed()
}

// Put hands over a job whose attempt has ended. It does nothing if the same attempt is
// already waiting or in work. It does not block and is never full: for jobs beyond
// MaxCapacity it keeps only the ID and the attempt, and reads the job from the queue when
// its turn comes. It returns an *amboy.InvalidJobError for a nil job, and an error if the
// handler is not started or is closed.
func (h *BasicRetryHandler) Put(_ context.Context, j amboy.Job) error {
	added, err := h.accept(j)
	if added {
		h.startWorkers()
		h.wakeWorkers(1)
	}
	return err
}

// accept adds a job to the backlog, unless the same attempt is waiting or in work.
func (h *BasicRetryHandler) accept(j amboy.Job) (added bool, err error) {
	if amboy.IsNilJob(j) {
		return false, fmt.Errorf("handing a job to the retry handler: %w",
			&amboy.InvalidJobError{Field: "job", Rule: "must not be nil"})
	}
	r := &jobRetry{retryKey: retryKey{j.ID(), j.RetryInfo().CurrentAttempt}, job: j}
	added, err = h.add(r)
	if err != nil {
		return false, fmt.Errorf("handing job %q to the retry handler: %w", r.jobID, err)
	}
	return added, nil
}

func (h *BasicRetryHandler) add(r *jobRetry) (added bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isClosed():
		return false, errRetryHandlerClosed
	case !h.started:
		return false, errRetryHandlerNotStarted
	}
	return h.backlog.add(r), nil
}

// retryCloseGrace is how long Close waits for workers whose work it has canceled.
const retryCloseGrace = 100 * time.Millisecond

// Close ends the handler. It waits for the jobs that the workers handle until ctx ends,
// then cancels them. It returns when every worker has returned, or 100 milliseconds later
// if a queue ignores its context. Jobs that wait, for a worker or for another try, stay
// in the queue as retrying. A closed handler can't be started again; closing it again
// only waits.
func (h *BasicRetryHandler) Close(ctx context.Context) {
	h.stop() // started and cancel do not change after this.
	if !h.started {
		return
	}
	defer h.cancel()
	defer context.AfterFunc(ctx, h.cancel)()
	late, cancel := lifecycle.AfterEnd(ctx, retryCloseGrace)
	defer cancel()
	h.workers.Wait(late)
}

// stop makes the workers return after their current jobs, and drops the waiting retries.
func (h *BasicRetryHandler) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	close(h.closing)
	h.backlog = newRetryBacklog(0)
	if h.working {
		h.timer.Stop()
	}
}

// work is the loop of a worker.
func (h *BasicRetryHandler) work(ctx context.Context) {
	defer h.stop()
	for ctx.Err() == nil {
		if some := h.take(); len(some) > 0 {
			h.handleAll(ctx, some)
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

// retriesTogether is the number of jobs that a worker replaces at once if the store replaces
// them with fewer calls.
const retriesTogether = 500

// take returns the next retries that are due: one, unless the store replaces several at once.
func (h *BasicRetryHandler) take() (some []*jobRetry) {
	most := 1
	if q, ok := h.queue.(*engine.Queue); ok && q.Engine.SharesRetries {
		most = retriesTogether
	}
	h.mu.Lock()
	due := h.backlog.release(h.now())
	for len(some) < most {
		r := h.backlog.take()
		if r == nil {
			break
		}
		some = append(some, r)
	}
	if due > 0 {
		h.setTimer()
	}
	h.mu.Unlock()
	// The timer wakes only one worker, even if several retries are due.
	h.wakeWorkers(due - 1)
	return some
}

// handleAll makes one try of each of some retries at once. The methods of their jobs and the
// retry policy are called one after the other.
func (h *BasicRetryHandler) handleAll(ctx context.Context, some []*jobRetry) {
	if len(some) == 1 {
		h.handle(ctx, some[0])
		return
	}
	var turn sync.Mutex
	var tries sync.WaitGroup
	for _, r := range some {
		r.turn = &turn
		tries.Go(func() { h.handle(ctx, r) })
	}
	tries.Wait()
}

// wakeWorkers wakes up to n workers. It stops when the channel is full: every worker has
// a token then.
func (h *BasicRetryHandler) wakeWorkers(n int) {
	for range n {
		select {
		case h.wake <- struct{}{}:
		default:
			return
		}
	}
}

// setTimer sets the timer to the first delayed retry. The caller holds the lock.
func (h *BasicRetryHandler) setTimer() {
	if !h.working {
		return // no worker waits for it
	}
	wait := never
	if due, ok := h.backlog.nextDue(); ok {
		wait = due.Sub(h.now())
	}
	h.timer.Reset(wait)
}

// handle makes one try of a retry, and schedules the next try if the queue refused this
// one.
func (h *BasicRetryHandler) handle(ctx context.Context, r *jobRetry) {
	r.begin(h.now())
	err := contain.Alone(func() error { return h.try(ctx, r) })
	switch {
	case err == nil:
	case ctx.Err() != nil || isRetrySettled(err):
		logging.Debug(ctx, func() message.Fields { return r.describe("left a retrying job unchanged", err) })
	default:
		h.tryLater(ctx, r, err)
		return
	}
	h.forget(r)
}

// retryTryTime limits one try, so that a queue that does not answer does not block a
// worker for longer.
const retryTryTime = 10 * time.Second

// try replaces the job by its next attempt, or ends the job if it can't have one.
func (h *BasicRetryHandler) try(ctx context.Context, r *jobRetry) error {
	ctx, cancel := context.WithTimeout(ctx, retryTryTime)
	defer cancel()
	if r.job == nil {
		job, err := h.queue.GetAttempt(ctx, r.jobID, r.attempt)
		if err != nil {
			return fmt.Errorf("reading the job: %w", err)
		}
		r.job = job
	}
	next, err := h.nextInTurn(r)
	if err == nil {
		err = contain.Alone(func() error { return h.queue.CompleteRetryingAndPut(ctx, r.job, next) })
	}
	if isDecidedByJob(err) {
		return h.end(ctx, r, err)
	}
	return err
}

// nextInTurn calls next when no other retry of the worker does.
func (h *BasicRetryHandler) nextInTurn(r *jobRetry) (amboy.Job, error) {
	if r.turn != nil {
		r.turn.Lock()
		defer r.turn.Unlock()
	}
	return h.next(r)
}

// next returns the next attempt of a job. It returns a *NoNextAttemptError if the reason
// is the job itself, and another error if the job is not to be retried here.
func (h *BasicRetryHandler) next(r *jobRetry) (next amboy.Job, err error) {
	err = contain.Alone(func() error {
		if !r.job.RetryInfo().ShouldRetry() {
			return errNoRetryNeeded
		}
		if held := h.lock(r); held != nil {
			return held
		}
		now := h.now()
		r.job.UpdateRetryInfo(amboy.JobRetryOptions{Start: &r.start, End: &now})
		if r.job.RetryInfo().GetRemainingAttempts() == 0 {
			return jobstate.AsNoNextAttempt(jobstate.ErrAttemptLimit)
		}
		next, err = jobstate.NextAttempt(r.job, formatOf(h.queue), h.opts.RetryPolicy, now)
		return jobstate.AsNoNextAttempt(err)
	})
	var panicked *amboy.PanicError
	if errors.As(err, &panicked) || errors.Is(err, contain.ErrExited) {
		err = jobstate.AsNoNextAttempt(err)
	}
	return next, err
}

// lock takes the job's lock, so that handlers on the same store know which one retries
// the job. The queue's atomic write is what decides.
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

// end ends a job without another attempt, and records the cause in its attempt errors. If the methods of
// the job that would record it are broken, the job ends all the same.
func (h *BasicRetryHandler) end(ctx context.Context, r *jobRetry, cause error) error {
	now := h.now()
	if !r.ended {
		r.ended = true
		h.logEnd(ctx, r, cause)
		h.record(ctx, r, func() { jobstate.AddRetryError(r.job, r.tries, cause, now) })
	}
	h.record(ctx, r, func() { r.job.UpdateRetryInfo(amboy.JobRetryOptions{End: &now}) })
	return h.queue.CompleteRetrying(ctx, r.job)
}

// record calls methods of a job, and logs if they are broken.
func (h *BasicRetryHandler) record(ctx context.Context, r *jobRetry, call func()) {
	err := contain.Alone(func() error {
		call()
		return nil
	})
	if err != nil {
		logging.Error(ctx, r.describe("could not record the end of a retry in its job", err))
	}
}

// logEnd logs why a job that has attempts left does not get another.
func (h *BasicRetryHandler) logEnd(ctx context.Context, r *jobRetry, cause error) {
	if errors.Is(cause, jobstate.ErrAttemptLimit) {
		return
	}
	fields := r.describe("ended a job whose next attempt can't be made", cause)
	var panicked *amboy.PanicError
	if errors.As(cause, &panicked) {
		fields["stack"] = string(panicked.Stack)
	}
	logging.Error(ctx, fields)
}

// isDecidedByJob reports whether the job itself caused the error, so that another try
// would fail too.
func isDecidedByJob(err error) bool {
	var none *jobstate.NoNextAttemptError
	var invalid *amboy.InvalidJobError
	return errors.As(err, &none) || errors.As(err, &invalid) || errors.Is(err, contain.ErrExited)
}

// isRetrySettled reports whether the error means that nothing is left to do: the next
// attempt exists, another owner has the job or its lease, or the queue is closed.
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

// lastRetryPause is the longest pause between two tries, unless RetryBackoff is longer.
const lastRetryPause = 5 * time.Second

// tryLater schedules the next try. After a round of failed tries it logs an error, and
// doubles the pauses.
func (h *BasicRetryHandler) tryLater(ctx context.Context, r *jobRetry, err error) {
	if h.isRoundOver(r) {
		logging.Error(ctx, r.describe("could not retry a job yet; trying again until the queue accepts it", err))
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

// formatOf returns the format in which a queue stores jobs. A job's type may not support
// any other format.
func formatOf(q amboy.RetryableQueue) amboy.Format {
	if stored, ok := q.(*engine.Queue); ok {
		return stored.Form.Format
	}
	return amboy.JSON
}

// policyAtEnd returns the policy of a started BasicRetryHandler, whose next attempts a queue
// may make itself when an attempt ends.
func policyAtEnd(h amboy.RetryHandler) (policy amboy.RetryPolicy, ok bool) {
	basic, ok := h.(*BasicRetryHandler)
	if !ok || !basic.Started() {
		return nil, false
	}
	return basic.opts.RetryPolicy, true
}
