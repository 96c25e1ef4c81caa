package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

func (q *driverQueue) Next(ctx context.Context) amboy.Job {
	for {
		run := q.engine.next(ctx, q.line)
		if run == nil {
			return nil
		}
		if ctx.Err() != nil {
			q.engine.handBack(run, handBackNow)
			return nil
		}
		if j := q.revive(ctx, run); j != nil {
			return j
		}
	}
}

// revive decodes the job of a claimed record and starts its run. It returns nil if the
// job is not to run.
func (q *driverQueue) revive(ctx context.Context, run *core.Run) (begun amboy.Job) {
	begin := func(ctx context.Context, j amboy.Job) {
		if q.mayBegin(ctx, j, run) && q.engine.start(run, j) {
			now := q.engine.now()
			j.UpdateTimeInfo(amboy.JobTimeInfo{Start: now})
			q.tell(amboy.EventStarted, j, now)
			begun = j
		}
	}
	q.decodeAnd(ctx, run, begin, func(ctx context.Context, err error) { q.leave(ctx, run, err) })
	return begun
}

// expire ends a claimed job whose time to start has passed.
func (q *driverQueue) expire(ctx context.Context, run *core.Run) {
	end := func(ctx context.Context, j amboy.Job) {
		markExpired(j)
		q.endUnrun(ctx, j, run)
	}
	q.decodeAnd(ctx, run, end, func(ctx context.Context, _ error) { q.endUnread(ctx, run) })
}

// decodeAnd calls do with the job of a claimed record, or unknown if this process does not
// know its type. It parks a record that can't be decoded. What was claimed is dealt with
// even if ctx has ended. If the job's own code panics, its run is dropped.
func (q *driverQueue) decodeAnd(ctx context.Context, run *core.Run, do func(context.Context, amboy.Job), unknown func(context.Context, error)) {
	ctx = context.WithoutCancel(ctx)
	q.awaitReplaced(run.Record)
	err := errorOfPanic(func() error {
		j, err := q.resolveToRun(run.Record)
		switch {
		case err == nil:
			do(ctx, j)
		case isUnknown(run.Record, err):
			unknown(ctx, err)
		default:
			q.park(ctx, run, "parked a job that can't be read", err)
		}
		return nil
	})
	if err != nil {
		logging.Error(ctx, q.failure("could not begin to run a job", run.Record.JobID(), err))
		q.engine.drop(run)
	}
}

// park sets a record aside that is not to run again by itself.
func (q *driverQueue) park(ctx context.Context, run *core.Run, what string, reason error) {
	logging.Error(ctx, q.failure(what, run.Record.JobID(), reason))
	q.engine.meter.parked.Add(1)
	q.tellParked(run.Record, reason)
	q.engine.handBack(run, core.End{HandBack: &driver.HandBack{Park: true, Reason: reason.Error()}})
}

// mayBegin reports whether the dependency of a claimed job lets it run. If not, it ends
// the run, or hands it back to be asked again later.
func (q *driverQueue) mayBegin(ctx context.Context, j amboy.Job, run *core.Run) bool {
	var failed []string
	if run.Record.Dependency != nil {
		failed = run.Record.Dependency.Failed
	}
	switch state, reason := consult(j.Dependency(), failed); state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		now := q.engine.now()
		q.engine.handBack(run, core.End{HandBack: &driver.HandBack{
			Since:     now,
			NotBefore: q.engine.rechecks.next(now, run.Record.TimeInfo.Created),
			Reason:    "its dependency says that it must wait",
		}})
	case dependency.Unresolved:
		j.AddError(reason)
		doNotRetry(j)
		q.endUnrun(ctx, j, run)
	case dependency.Passed:
		q.endUnrun(ctx, j, run)
	}
	return false
}

// resolveToRun decodes a job. Which lease it runs under is known by what it points
// to.
func (q *driverQueue) resolveToRun(r *driver.Record) (amboy.Job, error) {
	j, err := r.Resolve(q.format)
	if err == nil && reflect.TypeOf(j).Kind() != reflect.Pointer {
		return nil, fmt.Errorf("the factory of job type %q must return a pointer (returns a %T)", r.Type, j)
	}
	return j, err
}

// endUnrun ends a job for good that was claimed and is not run.
func (q *driverQueue) endUnrun(ctx context.Context, j amboy.Job, run *core.Run) {
	q.end(ctx, j, run, func(err error) {
		if err != nil {
			logging.Error(ctx, q.failure("could not end a job that is not to run", j.ID(), err))
		}
	})
}

// end writes that an attempt ended, and calls then with the result. It need not wait for
// that.
func (q *driverQueue) end(ctx context.Context, j amboy.Job, run *core.Run, then func(error)) {
	var r, next *driver.Record
	err := errorOfPanic(func() (err error) {
		r, err = q.endedRecord(ctx, j, run.Lease)
		if err == nil && r.RetryInfo.ShouldRetry() {
			next = q.replaceAtEnd(j, r)
			if next == nil {
				disown(j, r)
			}
		}
		return err
	})
	if err != nil {
		q.engine.drop(run) // a job whose end can't be written is run again
		then(err)
		return
	}
	replaced := func() {}
	if next != nil {
		replaced = q.replace(j.ID())
	}
	q.engine.finish(run, core.End{Record: r, Next: next}, func(err error) {
		q.afterEnd(ctx, j, r, next, err)
		replaced()
		then(err)
	})
}

// endAndWait is end that waits, and returns the result.
func (q *driverQueue) endAndWait(ctx context.Context, j amboy.Job, run *core.Run) error {
	done := make(chan error, 1)
	q.end(ctx, j, run, func(err error) { done <- err })
	return q.engine.waitForEnd(ctx, run, done)
}

// JobContext derives a context that ends when the job's lease is lost, or
// somebody cancels the job.
func (q *driverQueue) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	return q.engine.context(ctx, j)
}

// Complete ends an attempt of a job: one that Next returned under the lease that it
// got then, and any other under the one that is stored. While the store can't be
// reached it tries again, until ctx ends.
func (q *driverQueue) Complete(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.id)
	}
	run, err := q.completeJob(ctx, j)
	if err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	q.goOnAfter(ctx, j, run)
	return nil
}

// goOnAfter deals with what comes after the end of a run was written: the retry, or else
// that the queue may be idle now.
func (q *driverQueue) goOnAfter(ctx context.Context, j amboy.Job, run *core.Run) {
	switch {
	case run.End().Next != nil:
	case j.RetryInfo().ShouldRetry():
		q.handOver(ctx, j)
	default:
		q.checkIdleAfterEnd(ctx)
	}
}

func (q *driverQueue) completeJob(ctx context.Context, j amboy.Job) (*core.Run, error) {
	run, aborted := q.engine.take(j)
	if run != nil && run.Transacted() {
		if ended, err := q.endTransacted(ctx, j, run); ended || err != nil {
			return run, err
		}
		if j.Error() == nil && !aborted {
			j.AddRetryableError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrNotCommitted))
		}
	}
	if aborted {
		markCanceled(j)
	}
	if run == nil {
		lease, err := q.leaseElsewhere(ctx, j)
		if err != nil {
			return nil, err
		}
		// So that no process takes it that has read it before.
		status := j.Status()
		status.ModificationCount = lease.Count + 1
		j.SetStatus(status)
		run = &core.Run{Lease: lease}
	}
	return run, q.endAndWait(ctx, j, run)
}

// leaseElsewhere is the lease of a job that has none here. One that had shows it
// still: it must not be ended under that of whoever has it now.
func (q *driverQueue) leaseElsewhere(ctx context.Context, j amboy.Job) (driver.Lease, error) {
	if status := j.Status(); status.Owner == q.engine.id {
		name := driver.RecordName(q.name, j.ID(), j.RetryInfo())
		return driver.Lease{Queue: q.name, Name: name, Owner: status.Owner, Count: status.ModificationCount}, nil
	}
	r, err := q.driver.Get(ctx, q.name, j.ID())
	if err != nil {
		return driver.Lease{}, err
	}
	return driver.LeaseOf(r), nil
}

// CompleteLater is Complete, whose result is logged. A job that may have ended in a
// transaction is completed at once, and so is a job in a store that takes no time.
func (q *driverQueue) CompleteLater(ctx context.Context, j amboy.Job) (wait func()) {
	if q.engine.isTransacted(j) {
		q.reportEnd(ctx, j, q.Complete(ctx, j))
		return nothing
	}
	run, aborted := q.engine.take(j)
	if run == nil {
		q.reportEnd(ctx, j, q.Complete(ctx, j))
		return nothing
	}
	if aborted {
		markCanceled(j)
	}
	done := make(chan error, 1)
	q.end(ctx, j, run, func(err error) {
		q.reportEnd(ctx, j, err)
		if err == nil {
			q.goOnAfter(ctx, j, run)
		} else {
			q.checkIdleAfterEnd(ctx)
		}
		done <- nil
	})
	wait = func() { _ = q.engine.waitForEnd(ctx, run, done) } // which was reported
	if q.engine.inline {
		wait()
		return nothing
	}
	return wait
}

func nothing() {
}

// reportEnd logs that the end of a job could not be written.
func (q *driverQueue) reportEnd(ctx context.Context, j amboy.Job, err error) {
	switch {
	case errors.Is(err, amboy.ErrLeaseLost):
		logging.Warning(ctx, q.failure("job has not ended in its queue", j.ID(), err))
	case err != nil:
		logging.Error(ctx, q.failure("job has not ended in its queue", j.ID(), err))
	}
}

// endedRecord encodes a job that has ended.
func (q *driverQueue) endedRecord(ctx context.Context, j amboy.Job, lease driver.Lease) (*driver.Record, error) {
	now := q.engine.now()
	markComplete(j, now)
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return nil, err
	}
	if r.Name != lease.Name {
		// The job changed in its run what its attempts are named after, so that
		// there can be no next one.
		doNotRetry(j)
		r.Name, r.RetryInfo.NeedsRetry = lease.Name, false
	}
	r.ForgetAt = q.forgetAt(j, r, now)
	return r, nil
}

// disown makes a job that awaits its retry nobody's, so that whichever handler
// comes first may retry it, also when this queue is gone.
func disown(j amboy.Job, r *driver.Record) {
	r.Status.Owner = ""
	status := j.Status()
	status.Owner = ""
	j.SetStatus(status)
}

// afterEnd lets others know that an attempt has ended. Those who wait for the job
// look themselves whether it will be retried: the driver may have canceled it.
func (q *driverQueue) afterEnd(ctx context.Context, j amboy.Job, r, next *driver.Record, err error) {
	if err == nil {
		// before those wake up who may look at it
		if next != nil {
			q.countAs(activity.Retried, r, r.TimeInfo.End)
		} else {
			q.count(r)
		}
		q.ended(ctx, j.ID())
		q.tellEnd(j)
	}
	q.engine.changed(q)
}

// forgetAt is when a record that ends may be forgotten.
func (q *driverQueue) forgetAt(j amboy.Job, r *driver.Record, ended time.Time) time.Time {
	at := q.retention.For(j).Until(driver.StateOf(r, ended), ended)
	q.engine.forgetting.add(at, ended)
	return at
}

// recordOrLast encodes a job that ended. Where that is impossible, because of
// what the job made of itself, the job fails for that, and its last stored form
// is used.
func (q *driverQueue) recordOrLast(ctx context.Context, j amboy.Job) (*driver.Record, error) {
	r, err := q.boundedRecord(j)
	if err == nil {
		return r, nil
	}
	last, getErr := q.driver.Get(ctx, q.name, j.ID())
	if getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	j.AddError(fmt.Errorf("what the job left behind can't be stored: %w", err))
	last.Status, last.TimeInfo, last.RetryInfo = j.Status(), j.TimeInfo(), j.RetryInfo()
	last.Progress = amboy.ProgressOf(j)
	return last, nil
}

// handOver gives a job to the retry handler. Where that fails, the job stays in
// the store as retrying, and maintenance hands it over later.
func (q *driverQueue) handOver(ctx context.Context, j amboy.Job) {
	if err := q.RetryHandler().Put(ctx, j); err != nil && !q.isStopped() {
		logging.Error(ctx, q.failure("could not hand a job to the retry handler; it is tried again later", j.ID(), err))
	}
}

// Release hands a job back whose run was interrupted.
func (q *driverQueue) Release(ctx context.Context, j amboy.Job) error {
	if err := q.takeBack(ctx, j, driver.HandBack{}, amboy.EventHandedBack); err != nil {
		return fmt.Errorf("releasing a job of queue %q: %w", q.id, err)
	}
	return nil
}

// snoozeReason is what the status of a job shows that wants to run again later.
const snoozeReason = "it asked to run again later"

// notTooSoon is when a job may run that is to be snoozed until a time.
func notTooSoon(until, now time.Time) time.Time {
	if soonest := now.Add(amboy.MinSnooze); until.Before(soonest) {
		return soonest
	}
	return until
}

// Snooze hands a job back that wants to run again later.
func (q *driverQueue) Snooze(ctx context.Context, j amboy.Job, until time.Time) error {
	now := q.engine.now()
	back := driver.HandBack{NotBefore: notTooSoon(until, now), Since: now, Reason: snoozeReason}
	err := q.takeBack(ctx, j, back, amboy.EventSnoozed)
	if err != nil {
		return fmt.Errorf("snoozing a job of queue %q: %w", q.id, err)
	}
	return nil
}

// takeBack ends the run of a job, which is no attempt, unless somebody has canceled it.
func (q *driverQueue) takeBack(ctx context.Context, j amboy.Job, h driver.HandBack, kind amboy.EventKind) error {
	if amboy.IsNilJob(j) {
		return errors.New("the job must not be nil")
	}
	run, aborted := q.engine.take(j)
	if run == nil {
		return fmt.Errorf("job %q does not run here: %w", j.ID(), amboy.ErrLeaseLost)
	}
	if run.Transacted() {
		if ended, err := q.endTransacted(ctx, j, run); ended || err != nil {
			return err
		}
	}
	if aborted {
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
		markCanceled(j)
		return q.endAndWait(ctx, j, run)
	}
	q.tell(kind, j, q.engine.now())
	err := q.storeProgress(ctx, j, run.Lease)
	done := make(chan error, 1)
	q.engine.finish(run, core.End{HandBack: &h}, func(err error) { done <- err })
	if err = errors.Join(err, q.engine.waitForEnd(ctx, run, done)); err != nil {
		return fmt.Errorf("job %q: %w", j.ID(), err)
	}
	return nil
}
