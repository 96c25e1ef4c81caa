package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// completeTimeout bounds the call that completes a job or hands it back, after a hard stop
// that did not come from Close, or after Close has returned.
const completeTimeout = 10 * time.Second

// errNotReturned is the error of a job that calls runtime.Goexit.
var errNotReturned = errors.New("the job's goroutine ended before Run returned")

// attempt is one run of a job by a worker.
type attempt struct {
	job     amboy.Job
	ctx     context.Context    // what Run is given
	leased  context.Context    // ends when the job's lease is lost
	unlease context.CancelFunc // releases leased
	running *runningJob        // nil if the pool can't abort jobs
	debug   bool               // log the start and end

	// How Run ended.
	returned    bool // false after runtime.Goexit
	lost        bool // another worker owns the job
	aborted     bool // by the pool
	canceled    bool // by the queue
	interrupted bool // by a hard stop
}

// run runs a job, and ends the attempt in its queue.
func (w *worker) run(job amboy.Job) {
	defer w.clearActive()
	a := w.begin(job)
	defer w.end(&a)
	pprof.SetGoroutineLabels(a.ctx)
	defer pprof.SetGoroutineLabels(w.place)
	w.setActive(&a)
	// A job that was taken at the moment of a hard stop is handed back without running it.
	if w.hard.Err() == nil {
		// The job records its errors and a request to be snoozed, so the result is not
		// needed.
		_ = w.runJob(a.ctx, job)
	}
	a.returned = true
}

// begin derives the context of a job's run. A plain pool on a queue that is not a
// JobContexter uses one context for all jobs of a type.
func (w *worker) begin(job amboy.Job) attempt {
	a := attempt{job: job, leased: w.labels.of(w.hard, typeName(job)), unlease: nothing, debug: logging.DebugEnabled(w.hard)}
	w.debug(&a, "job started")
	if w.contexter != nil {
		a.leased, a.unlease = w.contexter.JobContext(a.leased, job)
	}
	a.ctx = a.leased
	if w.running != nil {
		a.running = w.running.add(a.leased, job.ID())
		a.ctx = a.running.ctx
	}
	return a
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
	err := w.settle(a)
	if a.running != nil {
		w.running.remove(a.running, err)
	}
	w.report(a, err)
}

// settle reports the outcome of the attempt to the queue. It returns a panic of the queue,
// which may come from the job's own encoding, as an error.
func (w *worker) settle(a *attempt) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("ending job %q: %w", a.job.ID(), &amboy.PanicError{Value: value, Stack: debug.Stack()})
		}
	}()
	if !a.returned {
		a.job.AddError(errNotReturned)
	}
	snoozed := amboy.SnoozedUntil(a.job)
	switch {
	case a.lost:
		return fmt.Errorf("dropping job %q: %w", a.job.ID(), amboy.ErrLeaseLost)
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
	w.logFailure(a)
	return w.complete(a.job, a.aborted)
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
	fields := w.fields(what, a.job)
	fields["error"], fields["attempt"], fields["outcome"] = failure.Error(), retry.CurrentAttempt, outcome
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
	fields := w.fields("job has not ended in its queue", a.job)
	fields["error"] = err.Error()
	if errors.Is(err, amboy.ErrLeaseLost) {
		logging.Warning(w.hard, fields)
		return
	}
	logging.Error(w.hard, fields)
}

func (w *workers) debug(a *attempt, text string) {
	if a.debug {
		logging.Debug(w.hard, func() message.Fields { return w.fields(text, a.job) })
	}
}

func (w *workers) fields(text string, job amboy.Job) message.Fields {
	return message.Fields{
		"message":  text,
		"job_id":   job.ID(),
		"job_type": job.Type().Name,
		"queue":    amboy.NameOf(w.queue),
	}
}
