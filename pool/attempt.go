package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
)

// completeTimeout bounds the call that completes a job or hands it back, after a hard stop
// that did not come from Close, or after Close has returned.
const completeTimeout = 10 * time.Second

// errNotReturned is the error of a job that calls runtime.Goexit.
var errNotReturned = errors.New("the job's goroutine ended before Run returned")

// attempt is one run of a job by a worker.
type attempt struct {
	job amboy.Job
	// id and jobType are empty if the job's methods panic.
	id, jobType string
	ctx         context.Context    // what Run is given
	leased      context.Context    // ends when the job's lease is lost
	unlease     context.CancelFunc // releases leased
	running     *runningJob        // nil if the pool can't abort jobs
	debug       bool               // log the start and end

	// How Run ended.
	returned    bool  // false after runtime.Goexit
	broken      error // the panic of a method other than Run
	lost        bool  // another worker owns the job
	aborted     bool  // by the pool
	canceled    bool  // by the queue
	interrupted bool  // by a hard stop
	err         error // why its end could not be reported to the queue
}

// run runs a job, and ends the attempt in its queue.
func (w *worker) run(job amboy.Job) {
	defer w.clearActive()
	a := attempt{job: job, leased: w.hard, unlease: nothing}
	defer w.end(&a)
	a.jobType = typeName(job)
	a.broken = contain.Panic(func() error {
		w.perform(&a)
		return nil
	})
	a.returned = true
}

// perform runs the job of an attempt.
func (w *worker) perform(a *attempt) {
	a.id = a.job.ID()
	w.begin(a)
	pprof.SetGoroutineLabels(a.ctx)
	defer pprof.SetGoroutineLabels(w.place)
	w.setActive(a)
	// A job that was taken at the moment of a hard stop is handed back without running it.
	if w.hard.Err() == nil {
		// The job records its errors and a request to be snoozed, so the result is not
		// needed.
		_ = w.runJob(a.ctx, a.job)
	}
}

// begin derives the context of a job's run. A plain pool on a queue that is not a
// JobContexter uses one context for all jobs of a type.
func (w *worker) begin(a *attempt) {
	a.debug = logging.DebugEnabled(w.hard)
	a.leased = w.labels.of(w.hard, a.jobType)
	w.debug(a, "job started")
	if w.contexter != nil {
		a.leased, a.unlease = w.contexter.JobContext(a.leased, a.job)
	}
	a.ctx = a.leased
	if w.running != nil {
		a.running = w.running.add(a.leased, a.id)
		a.ctx = a.running.ctx
	}
}

// end ends an attempt whose Run has returned, or whose goroutine has ended.
func (w *worker) end(a *attempt) {
	w.runReturned()
	a.interrupted = w.hard.Err() != nil
	a.lost = a.leased.Err() != nil && errors.Is(context.Cause(a.leased), amboy.ErrLeaseLost)
	a.canceled = a.leased.Err() != nil && errors.Is(context.Cause(a.leased), amboy.ErrAborted)
	a.unlease()
	if a.running != nil {
		a.aborted = w.running.finish(a.running)
	}
	defer w.ended(a) // even if the job ends this goroutine
	a.err = w.settle(a)
}

// ended records that an attempt has ended in its queue, or could not be ended.
func (w *worker) ended(a *attempt) {
	if a.running != nil {
		w.running.remove(a.running, a.err)
	}
	w.report(a, a.err)
}

// settle reports the outcome of the attempt to the queue. If the job's own methods panic, or call
// runtime.Goexit, the job ends as failed, if the queue can do that without them.
func (w *worker) settle(a *attempt) error {
	switch {
	case a.lost && !w.mayEndInTransaction(a.job):
		return fmt.Errorf("dropping job %q: %w", a.id, amboy.ErrLeaseLost)
	case a.broken != nil && w.breaker != nil:
		return w.endBroken(a, a.broken)
	default:
		return contain.Broken(func() error { return w.settleByJob(a) }, func(broken error) error {
			a.err = w.endBroken(a, broken) // settle may not return
			return a.err
		})
	}
}

// endBroken ends an attempt whose job can't be asked how it ended.
func (w *worker) endBroken(a *attempt, broken error) error {
	if w.breaker == nil {
		return fmt.Errorf("ending job %q: %w", a.id, broken)
	}
	ctx, cancel := w.completingContext()
	defer cancel()
	if err := w.breaker.EndBroken(ctx, a.job, broken); err != nil {
		return fmt.Errorf("ending job %q: %w", a.id, errors.Join(broken, err))
	}
	return nil
}

// settleByJob reports the outcome of the attempt as the job describes it.
func (w *worker) settleByJob(a *attempt) error {
	switch {
	case !a.returned:
		a.job.AddError(errNotReturned)
	case a.broken != nil:
		a.job.AddError(a.broken)
	}
	snoozed := amboy.SnoozedUntil(a.job)
	switch {
	case a.aborted:
		markCanceled(a.job)
	case !snoozed.IsZero():
		if w.snoozer != nil {
			return w.snooze(a.job, snoozed)
		}
		a.job.AddRetryableError(fmt.Errorf("the job can't be snoozed: %T does not support it", w.queue))
	case a.interrupted:
		if w.releaser != nil {
			return w.release(a.job)
		}
		if !isComplete(a.job) && a.job.Error() == nil {
			a.job.AddRetryableError(fmt.Errorf("job was interrupted: %w", context.Cause(w.hard)))
		}
	}
	if w.mayEndInTransaction(a.job) {
		// If the transaction was committed, the job has succeeded, whatever its function returned: Complete
		// finds that out, and removes its errors.
		err := w.complete(a.job, a.aborted)
		w.logFailure(a)
		return err
	}
	w.logFailure(a)
	return w.complete(a.job, a.aborted)
}

// transactionReporter is implemented by queues whose jobs may end in transactions of their own.
type transactionReporter interface {
	// MayEndInTransaction reports whether a job that runs has written its end in a transaction, which may have been
	// committed.
	MayEndInTransaction(j amboy.Job) bool
}

func (w *worker) mayEndInTransaction(job amboy.Job) bool {
	return w.transacts != nil && w.transacts.MayEndInTransaction(job)
}

// isComplete reports whether a job marked itself as complete and has no error. It decides
// only for an interrupted job whose queue can't take it back. A queue that can takes the
// job back in any case: most jobs begin with "defer MarkComplete", so the mark means
// little, and an extra run is better than a missing one.
func isComplete(job amboy.Job) bool {
	return job.Status().Completed && job.Error() == nil
}

// markCanceled makes an aborted job end as canceled and without a retry, even if it had
// finished its work by the time its context ended.
func markCanceled(job amboy.Job) {
	status := job.Status()
	status.Outcome = amboy.OutcomeCanceled
	job.SetStatus(status)
	if job.Error() == nil {
		job.AddError(fmt.Errorf("job %q: %w", job.ID(), amboy.ErrAborted))
	}
	needsRetry := false
	job.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: &needsRetry})
}

func (w *worker) complete(job amboy.Job, aborted bool) error {
	if w.completer != nil && !aborted && w.hard.Err() == nil {
		w.unwritten = append(w.unwritten, unwritten{time.Now(), w.completer.CompleteLater(w.completing, job)})
		w.awaitWritten()
		return nil
	}
	ctx, cancel := w.completingContext()
	defer cancel()
	if err := w.queue.Complete(ctx, job); err != nil {
		return fmt.Errorf("completing job %q: %w", job.ID(), err)
	}
	return nil
}

// logFailure logs why an attempt did not succeed. It is an error only if no other attempt
// follows: a canceled job is what its user or an operator wanted.
func (w *worker) logFailure(a *attempt) {
	failure := a.job.Error()
	if failure == nil {
		return
	}
	retry := a.job.RetryInfo()
	what, outcome, write := "job failed", "failed", logging.Error
	switch {
	case a.canceled || a.job.Status().Outcome == amboy.OutcomeCanceled:
		what, outcome, write = "job canceled", "canceled", logging.Warning
	case retry.ShouldRetry() && retry.GetRemainingAttempts() > 0:
		what, outcome, write = "job failed and will be retried", "retrying", logging.Warning
	}
	fields := w.fields(what, a)
	fields["error"], fields["attempt"], fields["outcome"] = failure.Error(), retry.CurrentAttempt+1, outcome
	var panicked *amboy.PanicError
	if errors.As(failure, &panicked) {
		fields["stack"] = string(panicked.Stack)
	}
	write(w.hard, fields)
}

func (w *workers) release(job amboy.Job) error {
	ctx, cancel := w.completingContext()
	defer cancel()
	if err := w.releaser.Release(ctx, job); err != nil {
		return fmt.Errorf("handing back job %q: %w", job.ID(), err)
	}
	return nil
}

func (w *workers) snooze(job amboy.Job, until time.Time) error {
	ctx, cancel := w.completingContext()
	defer cancel()
	if err := w.snoozer.Snooze(ctx, job, until); err != nil {
		return fmt.Errorf("snoozing job %q: %w", job.ID(), err)
	}
	return nil
}

// completingContext returns the context for reporting the end of a job to the queue, which
// a hard stop must not prevent. All calls share a context that Close ends when it gives
// up. After a hard stop each call also has its own time limit, and after Close has given
// up only that limit.
func (w *workers) completingContext() (context.Context, context.CancelFunc) {
	if w.hard.Err() == nil {
		return w.completing, func() {}
	}
	ctx := w.completing
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, completeTimeout)
}

// report logs the end of an attempt, or the error of reporting it to the queue.
func (w *workers) report(a *attempt, err error) {
	if err == nil {
		w.debug(a, "job ended")
		return
	}
	fields := w.fields("job has not ended in its queue", a)
	fields["error"] = err.Error()
	if errors.Is(err, amboy.ErrLeaseLost) {
		logging.Warning(w.hard, fields)
		return
	}
	logging.Error(w.hard, fields)
}

func (w *workers) debug(a *attempt, text string) {
	if a.debug {
		logging.Debug(w.hard, func() message.Fields { return w.fields(text, a) })
	}
}

func (w *workers) fields(text string, a *attempt) message.Fields {
	return message.Fields{
		"message":  text,
		"job_id":   a.id,
		"job_type": a.jobType,
		"queue":    amboy.NameOf(w.queue),
	}
}
