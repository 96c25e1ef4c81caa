package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// CompleteRetryingAndPut implements amboy.RetryableQueue.
func (q *Queue) CompleteRetryingAndPut(ctx context.Context, toComplete, toPut amboy.Job) error {
	if amboy.IsNilJob(toComplete) || amboy.IsNilJob(toPut) {
		return fmt.Errorf("retrying a job of queue %q: jobs must not be nil", q.ID())
	}
	if toComplete.ID() != toPut.ID() {
		return fmt.Errorf("retrying job %q: its next attempt must have the same ID (is %q)", toComplete.ID(), toPut.ID())
	}
	now := q.Engine.Now()
	next, err := q.newRecord(toPut, now)
	if err != nil {
		if !errors.Is(err, codec.ErrKeyUnavailable) {
			err = jobstate.AsNoNextAttempt(err)
		}
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), err)
	}
	startAnew(next, now)
	next.ForgetAt = time.Time{}
	ended, err := q.endedRetry(ctx, toComplete, now)
	if err == nil {
		ended.ForgetAt = q.Retention.For(toComplete).UntilReplaced(now)
		q.Engine.forgetting.add(ended.ForgetAt, now)
		err = q.Driver.Retry(ctx, ended, next)
	}
	if err != nil {
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), err)
	}
	q.countAs(activity.Retried, ended, now)
	jobstate.MarkNew(toPut, next.TimeInfo.Created)
	q.Engine.Happen(core.Changed{Line: q.Line})
	return nil
}

// replaceAtEnd returns the next attempt of a job that is to be retried, and completes r,
// the end of this attempt. The store writes both in one call. If the retry handler must
// make the next attempt, or the job has none, replaceAtEnd returns nil and changes nothing.
func (q *Queue) replaceAtEnd(j amboy.Job, r *driver.Record) (next *driver.Record) {
	if !q.Engine.replaces || j.RetryInfo().GetRemainingAttempts() == 0 {
		return nil
	}
	policy, ok := q.policyAtEnd(q.RetryHandler())
	if !ok {
		return nil
	}
	now := r.TimeInfo.End
	next, err := jobstate.NextRecord(j, r, policy, now)
	if err != nil {
		return nil // the handler gets the same error, and ends the job
	}
	r.RetryInfo.NeedsRetry = false
	r.RetryInfo.Start, r.RetryInfo.End = now, now
	r.ForgetAt = q.Retention.For(j).UntilReplaced(now)
	q.Engine.forgetting.add(r.ForgetAt, now)
	return next
}

// replace records that a job is being replaced by its next attempt, if there is one, until
// replaced is called. The next attempt may be claimed before this process knows that it is
// stored, but must not start before the end of this attempt was published.
func (q *Queue) replace(end core.End) (replaced func()) {
	if end.Next == nil {
		return nothing
	}
	id, done := end.Record.JobID(), make(chan struct{})
	q.replacing.Store(id, done)
	return func() {
		q.replacing.Delete(id)
		close(done)
	}
}

// awaitReplaced waits until the previous attempt of a record was replaced; see replace. It
// returns false if ctx ends first.
func (q *Queue) awaitReplaced(ctx context.Context, r *driver.Record) bool {
	if r.RetryInfo.CurrentAttempt == 0 {
		return true
	}
	done, ok := q.replacing.Load(r.JobID())
	if !ok {
		return true
	}
	select {
	case <-done.(chan struct{}):
		return true
	case <-ctx.Done():
		return false
	}
}

// CompleteRetrying implements amboy.RetryableQueue.
func (q *Queue) CompleteRetrying(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("ending the retry of a job of queue %q: the job must not be nil", q.ID())
	}
	ended, err := q.endedRetry(ctx, j, q.Engine.Now())
	if err == nil {
		err = q.Driver.EndRetry(ctx, ended)
	}
	if err != nil {
		return fmt.Errorf("ending the retry of job %q: %w", j.ID(), err)
	}
	q.count(ended)
	q.Ended(ctx, j.ID())
	q.Publish(amboy.EventKind(driver.StateOf(ended, ended.RetryInfo.End)), j, ended.RetryInfo.End)
	q.checkIdleAfterEnd(ctx)
	q.Engine.Happen(core.Changed{Line: q.Line})
	return nil
}

// endedRetry returns the record of a job whose retry has ended.
func (q *Queue) endedRetry(ctx context.Context, j amboy.Job, now time.Time) (*driver.Record, error) {
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return nil, err
	}
	r.RetryInfo.NeedsRetry = false
	if r.RetryInfo.End.IsZero() {
		r.RetryInfo.End = now
	}
	r.Status.Completed, r.Status.InProgress = true, false
	r.Status.ModificationCount++ // so that no process that has read it before retries it
	if r.Status.Owner == q.ID() {
		// The handler has locked the job in the name of its queue, but the owner of the
		// lease is the engine.
		r.Status.Owner = q.Engine.ID
	}
	r.ForgetAt = q.ForgetAt(j, r, now)
	return r, q.Form.Seal(r)
}
