package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

func (q *driverQueue) CompleteRetryingAndPut(ctx context.Context, toComplete, toPut amboy.Job) error {
	if amboy.IsNilJob(toComplete) || amboy.IsNilJob(toPut) {
		return fmt.Errorf("retrying a job of queue %q: neither job must be nil", q.id)
	}
	if toComplete.ID() != toPut.ID() {
		return fmt.Errorf("retrying job %q: its next attempt must have the same ID (is %q)", toComplete.ID(), toPut.ID())
	}
	now := q.engine.now()
	next, err := q.newRecord(toPut, now)
	if err != nil {
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), asNoNextAttempt(err))
	}
	startAnew(next, now)
	next.ForgetAt = time.Time{}
	ended, err := q.endedRetry(ctx, toComplete, now)
	if err == nil {
		ended.ForgetAt = q.retention.For(toComplete).UntilReplaced(now)
		q.engine.forgetting.add(ended.ForgetAt, now)
		err = q.driver.Retry(ctx, ended, next)
	}
	if err != nil {
		return fmt.Errorf("retrying job %q: %w", toComplete.ID(), err)
	}
	q.countAs(activity.Retried, ended, now)
	markNew(toPut, next.TimeInfo.Created)
	q.engine.happen(core.Changed{Line: q.line})
	return nil
}

func (q *driverQueue) CompleteRetrying(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("ending the retry of a job of queue %q: the job must not be nil", q.id)
	}
	ended, err := q.endedRetry(ctx, j, q.engine.now())
	if err == nil {
		err = q.driver.EndRetry(ctx, ended)
	}
	if err != nil {
		return fmt.Errorf("ending the retry of job %q: %w", j.ID(), err)
	}
	q.count(ended)
	q.ended(ctx, j.ID())
	q.tell(amboy.EventKind(driver.StateOf(ended, ended.RetryInfo.End)), j, ended.RetryInfo.End)
	q.checkIdleAfterEnd(ctx)
	q.engine.happen(core.Changed{Line: q.line})
	return nil
}

// endedRetry is the record of a job whose retry is done with.
func (q *driverQueue) endedRetry(ctx context.Context, j amboy.Job, now time.Time) (*driver.Record, error) {
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return nil, err
	}
	r.RetryInfo.NeedsRetry = false
	if r.RetryInfo.End.IsZero() {
		r.RetryInfo.End = now
	}
	r.Status.Completed, r.Status.InProgress = true, false
	r.Status.ModificationCount++ // so that no process retries it that has read it before
	if r.Status.Owner == q.id {
		// The handler has locked the job in the name of its queue. What ran it, and has
		// its lease, is the engine.
		r.Status.Owner = q.engine.id
	}
	r.ForgetAt = q.forgetAt(j, r, now)
	return r, nil
}
