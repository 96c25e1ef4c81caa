package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// Next implements amboy.Queue.
func (q *Queue) Next(ctx context.Context) amboy.Job {
	for {
		run := q.Engine.next(ctx, q.Line)
		if run == nil {
			return nil
		}
		if ctx.Err() != nil {
			q.Engine.HandBack(run, HandBackNow)
			return nil
		}
		if j := q.DecodeAndStart(ctx, run); j != nil {
			return j
		}
	}
}

// DecodeAndStart decodes the job of a claimed record and starts its run. It returns nil
// if the job is not to run.
func (q *Queue) DecodeAndStart(ctx context.Context, run *core.Run) (begun amboy.Job) {
	begin := func(ctx context.Context, j amboy.Job) {
		if !amboy.RunsHere(j) {
			q.leaveOutside(run)
			return
		}
		if q.MayBegin(ctx, j, run) && q.Engine.start(run, j) {
			now := q.Engine.Now()
			j.UpdateTimeInfo(amboy.JobTimeInfo{Start: now})
			q.Publish(amboy.EventStarted, j, now)
			q.logInterruptions(ctx, run.Record)
			begun = j
		}
	}
	q.DecodeAnd(ctx, run, begin, func(ctx context.Context, err error) { q.leave(ctx, run, err) })
	return begun
}

// logInterruptions logs that a job which was interrupted before runs again.
func (q *Queue) logInterruptions(ctx context.Context, r *driver.Record) {
	lost := r.Status.Interruptions
	if lost.Total() == 0 {
		return
	}
	fields := message.Fields{
		"message":       "running a job again, because its process died or lost the store",
		"queue":         amboy.NameOf(q),
		"job_id":        r.JobID(),
		"job_type":      r.Type,
		"interruptions": lost.Total(),
	}
	if len(lost.Latest) > 0 {
		last := lost.Latest[len(lost.Latest)-1]
		fields["owner"], fields["started"], fields["recovered"] = last.Owner, last.Start, last.At
	}
	logging.Warning(ctx, fields)
}

// Expire ends a claimed job whose dispatch-by time has passed. A job that had started in a process that
// died has met that time, and is handed back. Of a job for outside workers it is a time to live.
func (q *Queue) Expire(ctx context.Context, run *core.Run) {
	started := hadStarted(run.Record)
	end := func(ctx context.Context, j amboy.Job) {
		if started && !amboy.IsForOutside(j) {
			q.Engine.HandBack(run, handBackStarted)
			return
		}
		jobstate.MarkExpired(j)
		q.endUnrun(ctx, j, run)
	}
	q.DecodeAnd(ctx, run, end, func(ctx context.Context, _ error) {
		if started {
			q.Engine.HandBack(run, handBackStarted)
			return
		}
		q.endUnread(ctx, run)
	})
}

// hadStarted reports whether a run of a record that was interrupted had begun by the dispatch-by time.
func hadStarted(r *driver.Record) bool {
	lost := r.Status.Interruptions
	return lost != nil && slices.ContainsFunc(lost.Latest, func(i amboy.Interruption) bool {
		return !i.Start.After(r.TimeInfo.DispatchBy)
	})
}

// DecodeAnd calls do with the job of a claimed record, or unknown if this process does
// not know the job's type or lacks its key. It parks a record that can't be decoded. A claimed record is
// handled even if ctx has ended, unless it must wait for the end of the previous attempt.
// If the job's own code panics, the job ends as failed.
func (q *Queue) DecodeAnd(ctx context.Context, run *core.Run, do func(context.Context, amboy.Job), unknown func(context.Context, error)) {
	if !q.awaitReplaced(ctx, run.Record) {
		q.Engine.HandBack(run, HandBackNow)
		return
	}
	ctx = context.WithoutCancel(ctx)
	_ = contain.Broken(func() error {
		j, err := q.resolveToRun(run.Record)
		switch {
		case err == nil:
			do(ctx, j)
		case isUnknown(run.Record, err):
			unknown(ctx, err)
		default:
			q.park(ctx, run, "parked a job that can't be decoded", err)
		}
		return nil
	}, func(broken error) error {
		q.endBroken(ctx, run, broken, func(err error) { q.ReportEnd(ctx, run.Record.JobID(), err) })
		return nil
	})
}

// park hands a record back as parked, so that it does not run again by itself.
func (q *Queue) park(ctx context.Context, run *core.Run, what string, reason error) {
	logging.Error(ctx, q.failure(what, run.Record.JobID(), reason))
	q.Engine.Meter.Parked.Add(1)
	q.publishRecord(amboy.EventParked, run.Record, q.Engine.Now(), reason)
	q.Engine.HandBack(run, core.End{HandBack: &driver.HandBack{Park: true, Reason: reason.Error()}})
}

// MayBegin reports whether the dependency of a claimed job lets it run. If not, MayBegin
// ends the run, or hands it back to be checked again later.
func (q *Queue) MayBegin(ctx context.Context, j amboy.Job, run *core.Run) bool {
	var failed []string
	if run.Record.Dependency != nil {
		failed = run.Record.Dependency.Failed
	}
	switch state, reason := jobstate.Consult(j.Dependency(), failed); state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		q.postpone(run, q.Engine.Now(), "its dependency says that it must wait")
	case dependency.Unresolved:
		j.AddError(reason)
		jobstate.DoNotRetry(j)
		fields := q.failure("job failed without running", j.ID(), reason)
		fields["job_type"] = j.Type().Name
		logging.Warning(ctx, fields)
		q.endUnrun(ctx, j, run)
	case dependency.Passed:
		q.endUnrun(ctx, j, run)
	}
	return false
}

// postpone hands a claimed job back for a while, which is longer for an older job.
func (q *Queue) postpone(run *core.Run, now time.Time, reason string) {
	q.Engine.HandBack(run, core.End{HandBack: &driver.HandBack{
		Since:     now,
		NotBefore: q.Engine.rechecks.Next(now, run.Record.TimeInfo.Created),
		Reason:    reason,
	}})
}

// resolveToRun decodes a job. The job must be a pointer, because runs are looked up by
// job value.
func (q *Queue) resolveToRun(r *driver.Record) (amboy.Job, error) {
	j, err := q.Form.Resolve(r)
	if err == nil && reflect.TypeOf(j).Kind() != reflect.Pointer {
		return nil, fmt.Errorf("the factory of job type %q must return a pointer (returns a %T)", r.Type, j)
	}
	return j, err
}

// endUnrun ends a claimed job for good that does not run.
func (q *Queue) endUnrun(ctx context.Context, j amboy.Job, run *core.Run) {
	q.End(ctx, j, run, func(err error) {
		if err != nil {
			logging.Error(ctx, q.failure("could not end a job that is not to run", run.Record.JobID(), err))
		}
	})
}

// End writes that an attempt ended, and calls then with the result. It may return before
// that.
func (q *Queue) End(ctx context.Context, j amboy.Job, run *core.Run, then func(error)) {
	var end core.End
	isBroken := false
	err := contain.Broken(func() (err error) {
		end, err = q.encodeEnd(ctx, j, run)
		return err
	}, func(broken error) error {
		isBroken = true
		q.endBroken(ctx, run, broken, then)
		return nil
	})
	switch {
	case isBroken:
		return
	case err != nil:
		q.Engine.drop(run) // a job whose end can't be encoded runs again
		then(err)
		return
	}
	replaced := q.replace(end)
	q.Engine.Finish(run, end, func(err error) {
		defer then(err) // even if a method of the job panics
		defer replaced()
		q.afterEnd(ctx, j, run.End(), err)
	})
}

// encodeEnd encodes the end of an attempt, and the next attempt if the store writes both in
// one call.
func (q *Queue) encodeEnd(ctx context.Context, j amboy.Job, run *core.Run) (end core.End, err error) {
	if run.Canceled {
		jobstate.MarkCanceled(j)
	}
	end.Record, err = q.endedRecord(ctx, j, run)
	if err == nil && end.Record.RetryInfo.ShouldRetry() {
		end.Next = q.replaceAtEnd(j, end.Record)
		if end.Next == nil {
			disown(j, end.Record)
		}
	}
	return end, err
}

// endAndWait is End that waits for the result and returns it.
func (q *Queue) endAndWait(ctx context.Context, j amboy.Job, run *core.Run) error {
	done := q.Engine.Result()
	q.End(ctx, j, run, func(err error) { done <- err })
	return q.Engine.WaitForEnd(ctx, run, done)
}

// JobContext derives a context that ends when the job's lease is lost, or the job is
// canceled.
func (q *Queue) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	return q.Engine.context(ctx, j)
}

// Complete ends an attempt of a job. If Next returned the job, the end is written under
// the lease of that run, and otherwise under the stored lease; the copy of a job that this engine has
// claimed must show that lease. While the store can't be reached, Complete tries again until ctx ends.
func (q *Queue) Complete(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.ID())
	}
	run, err := q.completeJob(ctx, j)
	if err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	q.AfterWrite(ctx, j, run)
	return nil
}

// AfterWrite is called when the end of a run was written. It hands the job to the retry
// handler, or checks whether the queue is idle now.
func (q *Queue) AfterWrite(ctx context.Context, j amboy.Job, run *core.Run) {
	switch {
	case run.End().Next != nil:
	case j.RetryInfo().ShouldRetry():
		q.HandOver(ctx, j)
	default:
		q.checkIdleAfterEnd(ctx)
	}
}

func (q *Queue) completeJob(ctx context.Context, j amboy.Job) (*core.Run, error) {
	if run := q.Engine.take(j); run != nil {
		return run, q.unlessBroken(ctx, run, func() error { return q.endTaken(ctx, j, run) })
	}
	lease, err := q.leaseElsewhere(ctx, j)
	if err != nil {
		return nil, err
	}
	// So that no process that has read the job before can claim it.
	status := j.Status()
	status.ModificationCount = lease.Count + 1
	j.SetStatus(status)
	run := &core.Run{Lease: lease}
	return run, q.endAndWait(ctx, j, run)
}

// endTaken ends the run of a job that was taken.
func (q *Queue) endTaken(ctx context.Context, j amboy.Job, run *core.Run) error {
	if run.Transacted() {
		if ended, err := q.endTransacted(ctx, j, run); ended || err != nil {
			return err
		}
		if q.Engine.hasLost(run) {
			return q.handLostBack(ctx, j, run)
		}
		if j.Error() == nil && !run.Canceled {
			j.AddRetryableError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrNotCommitted))
		}
	}
	return q.endedLate(ctx, j, run, q.endAndWait(ctx, j, run))
}

// leaseElsewhere returns the stored lease of a job that Next has not returned: it runs elsewhere, or is
// a copy of one that runs here. If the job's status names this engine as owner, it may also have run
// here and lost its lease. Then it must not be ended under the lease of a later run.
func (q *Queue) leaseElsewhere(ctx context.Context, j amboy.Job) (driver.Lease, error) {
	isOwn := j.Status().Owner == q.Engine.ID
	r, err := q.rereadUntil(ctx, j.ID())
	switch {
	case err == nil && isOwn && !isOfRun(j, r), amboy.IsJobNotFoundError(err) && isOwn:
		return driver.Lease{}, fmt.Errorf("it does not run under the lease that it shows: %w", amboy.ErrLeaseLost)
	case err != nil:
		return driver.Lease{}, err
	default:
		return driver.LeaseOf(r), nil
	}
}

// isOfRun reports whether a job shows the lease of its stored record. A job has no stamp, but started
// before the run of a later job with its ID.
func isOfRun(j amboy.Job, r *driver.Record) bool {
	status, start := j.Status(), j.TimeInfo().Start
	return driver.RecordName(r.Group, j.ID(), j.RetryInfo()) == r.Name &&
		status.Owner == r.Status.Owner && status.ModificationCount == r.Status.ModificationCount &&
		(start.IsZero() || !start.Before(r.TimeInfo.Start))
}

// CompleteLater is Complete in the background; the result is logged. It waits for the
// result if the job may have ended in a transaction, and if calls of the store take no
// time.
func (q *Queue) CompleteLater(ctx context.Context, j amboy.Job) (wait func()) {
	if q.Engine.inline || q.Engine.isTransacted(j) {
		q.ReportEnd(ctx, "", q.Complete(ctx, j))
		return nothing
	}
	run := q.Engine.take(j)
	if run == nil {
		q.ReportEnd(ctx, "", q.Complete(ctx, j))
		return nothing
	}
	done := q.Engine.Result()
	// A worker keeps wait for longer than the end takes. It must not keep the job.
	var unwritten atomic.Pointer[core.Run]
	unwritten.Store(run)
	q.End(ctx, j, run, func(err error) {
		defer func() {
			unwritten.Store(nil)
			done <- nil
		}()
		q.ReportEnd(ctx, run.Record.JobID(), err)
		if err == nil {
			q.AfterWrite(ctx, j, run)
		} else {
			q.checkIdleAfterEnd(ctx)
		}
	})
	return func() {
		if run := unwritten.Load(); run != nil {
			_ = q.Engine.WaitForEnd(ctx, run, done) // the error was reported
			return
		}
		<-done //nolint:errcheck // It was reported.
		q.Engine.results.Put(done)
	}
}

func nothing() {
}

// ReportEnd logs that the end of a job could not be written. The ID may be empty if the error
// has it.
func (q *Queue) ReportEnd(ctx context.Context, id string, err error) {
	switch {
	case errors.Is(err, amboy.ErrLeaseLost):
		logging.Warning(ctx, q.failure("job has not ended in its queue", id, err))
	case errors.Is(err, driver.ErrTooLarge):
		logging.Error(ctx, q.failure("job failed because its outcome can't be stored", id, err))
	case err != nil:
		logging.Error(ctx, q.failure("job has not ended in its queue", id, err))
	}
}

// endedRecord encodes a job whose run has ended.
func (q *Queue) endedRecord(ctx context.Context, j amboy.Job, run *core.Run) (*driver.Record, error) {
	now := q.Engine.Now()
	jobstate.MarkComplete(j, now)
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return nil, err
	}
	if r.Name != run.Lease.Name {
		// The run changed a part of the job that the names of its attempts depend on, so
		// there can be no next attempt.
		jobstate.DoNotRetry(j)
		r.Name, r.RetryInfo.NeedsRetry = run.Lease.Name, false
		if run.Record != nil {
			r.RetryInfo.BaseJobID = run.Record.RetryInfo.BaseJobID
		}
	}
	r.ForgetAt = q.ForgetAt(j, r, now)
	return r, q.Form.sealAfter(r, run.Record)
}

// disown clears the owner of a retrying job, so that any retry handler may retry it, even
// if this queue is gone.
func disown(j amboy.Job, r *driver.Record) {
	r.Status.Owner = ""
	status := j.Status()
	status.Owner = ""
	j.SetStatus(status)
}

// afterEnd records that an attempt has ended, and notifies waiters and subscribers.
// Waiters check themselves whether the job will be retried, because the driver may have
// canceled it.
func (q *Queue) afterEnd(ctx context.Context, j amboy.Job, end core.End, err error) {
	defer q.Engine.changed(q)               // even if a method of the job panics
	if errors.Is(err, driver.ErrTooLarge) { // the store has ended the job as failed
		j.AddError(err)
		jobstate.DoNotRetry(j)
		end, err = core.End{Record: driver.ShortEnd(end.Record, err)}, nil
	}
	if err == nil {
		// Count first, so that waiters find the attempt counted.
		if end.Next != nil {
			q.countAs(activity.Retried, end.Record, end.Record.TimeInfo.End)
		} else {
			q.count(end.Record)
		}
		q.Ended(ctx, end.Record.JobID())
		q.publishEnd(j)
	}
}

// ForgetAt returns when a record that ends may be removed.
func (q *Queue) ForgetAt(j amboy.Job, r *driver.Record, ended time.Time) time.Time {
	at := q.Retention.For(j).Until(driver.StateOf(r, ended), ended)
	q.Engine.forgetting.add(at, ended)
	return at
}

// recordOrLast encodes a job that ended. If the job can't be encoded any more, that error
// is added to the job, so that it fails, and its last stored form is used.
func (q *Queue) recordOrLast(ctx context.Context, j amboy.Job) (*driver.Record, error) {
	r, err := q.boundedRecord(j)
	if err == nil {
		return r, nil
	}
	last, getErr := q.rereadEnded(ctx, j.ID())
	if getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	j.AddError(fmt.Errorf("the state of the job after its run can't be stored: %w", err))
	last.Status, last.TimeInfo, last.RetryInfo = j.Status(), j.TimeInfo(), j.RetryInfo()
	last.Progress = amboy.ProgressOf(j)
	return last, nil
}

// rereadEnded reads a job whose run has ended. It tries again until the store answers, the lease may be
// over, or Close gives up the ends that are not written.
//
//nolint:contextcheck // The context for writing ends only this one.
func (q *Queue) rereadEnded(ctx context.Context, id string) (*driver.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, q.Engine.LeaseTime)
	defer cancel()
	defer context.AfterFunc(q.Engine.forWriting(), cancel)()
	return q.rereadUntil(ctx, id)
}

// HandOver hands a job to the retry handler. If that fails, the job stays retrying in the
// store, and maintenance hands it over later.
func (q *Queue) HandOver(ctx context.Context, j amboy.Job) {
	err := contain.Panic(func() error { return q.RetryHandler().Put(ctx, j) })
	if err != nil && !q.IsStopped() {
		logging.Error(ctx, q.failure("could not hand a job to the retry handler; trying again later", j.ID(), err))
	}
}

// Release implements amboy.JobReleaser: it hands back a job whose run was interrupted.
func (q *Queue) Release(ctx context.Context, j amboy.Job) error {
	if err := q.takeBack(ctx, j, driver.HandBack{}, amboy.EventHandedBack); err != nil {
		return fmt.Errorf("releasing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// Snooze implements amboy.JobSnoozer: it hands back a job that is to run again later.
func (q *Queue) Snooze(ctx context.Context, j amboy.Job, until time.Time) error {
	now := q.Engine.Now()
	back := driver.HandBack{NotBefore: jobstate.NotTooSoon(until, now), Since: now, Reason: jobstate.SnoozeReason}
	err := q.takeBack(ctx, j, back, amboy.EventSnoozed)
	if err != nil {
		return fmt.Errorf("snoozing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// takeBack ends the run of a job without counting an attempt. If the job is to be
// canceled, takeBack ends the job.
func (q *Queue) takeBack(ctx context.Context, j amboy.Job, h driver.HandBack, kind amboy.EventKind) error {
	if amboy.IsNilJob(j) {
		return errors.New("the job must not be nil")
	}
	h.Started = true
	run := q.Engine.take(j)
	if run == nil {
		return fmt.Errorf("job %q does not run here: %w", j.ID(), amboy.ErrLeaseLost)
	}
	return q.unlessBroken(ctx, run, func() error { return q.takeTakenBack(ctx, j, run, h, kind) })
}

// takeTakenBack is takeBack for a run that was taken.
func (q *Queue) takeTakenBack(ctx context.Context, j amboy.Job, run *core.Run, h driver.HandBack, kind amboy.EventKind) error {
	if run.Transacted() {
		if ended, err := q.endTransacted(ctx, j, run); ended || err != nil {
			return err
		}
	}
	if run.Canceled {
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
		return q.endedLate(ctx, j, run, q.endAndWait(ctx, j, run))
	}
	err := contain.Panic(func() error {
		q.Publish(kind, j, q.Engine.Now())
		return q.storeProgress(ctx, j, run.Lease)
	})
	done := q.Engine.Result()
	q.Engine.Finish(run, core.End{HandBack: &h}, func(err error) { done <- err })
	if failure := q.Engine.WaitForEnd(ctx, run, done); failure != nil {
		failure = q.endedLate(ctx, j, run, failure)
		if failure == nil {
			return nil
		}
		err = errors.Join(err, failure)
	}
	if err != nil {
		return fmt.Errorf("job %q: %w", j.ID(), err)
	}
	return nil
}
