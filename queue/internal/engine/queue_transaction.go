package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

var _ amboy.TransactionalCompleter = (*Queue)(nil)

// CompleteIn implements amboy.TransactionalCompleter: it ends a job that Next returned, in
// the transaction that ctx carries.
func (q *Queue) CompleteIn(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q in a transaction: the job must not be nil", q.ID())
	}
	if err := q.completeIn(mongodb.ShowTransaction(ctx), j); err != nil {
		return fmt.Errorf("completing job %q in a transaction, which must be rolled back: %w", j.ID(), err)
	}
	return nil
}

func (q *Queue) completeIn(ctx context.Context, j amboy.Job) error {
	switch {
	case !driver.HasTransaction(ctx):
		return errors.New("context carries no transaction of the store (see WithTx of its driver)")
	case !q.Driver.Features().TransactionalEnds:
		return errors.New("store of the queue can't end jobs in a transaction")
	case j.Error() != nil:
		return fmt.Errorf("job has reported an error: %w", j.Error())
	case j.RetryInfo().ShouldRetry():
		return errors.New("job has asked to be retried")
	case j.Status().Outcome != "":
		return fmt.Errorf("job has the outcome %s, but ends as succeeded in a transaction", j.Status().Outcome)
	}
	r, lease, err := q.transactedRecord(ctx, j)
	if err != nil {
		return err
	}
	errs, err := q.Driver.Complete(ctx, []driver.Completion{{Lease: lease, Record: r}})
	if err != nil {
		return err
	}
	return errs[0]
}

// transactedRecord encodes the end of a job that succeeds if a transaction is committed.
// The job itself stays in progress until then. Its lease is not renewed any more.
func (q *Queue) transactedRecord(ctx context.Context, j amboy.Job) (r *driver.Record, lease driver.Lease, err error) {
	run, cause := q.Engine.transact(j)
	if run == nil {
		return nil, driver.Lease{}, fmt.Errorf("job does not run in queue %q: %w", q.ID(), amboy.ErrLeaseLost)
	}
	if cause != nil {
		return nil, driver.Lease{}, cause
	}
	status, times := j.Status(), j.TimeInfo()
	defer func() {
		j.SetStatus(status)
		j.SetTimeInfo(times)
	}()
	err = contain.Panic(func() (err error) {
		r, err = q.endedRecord(ctx, j, run)
		if err == nil {
			err = j.Error() // what the job leaves can't be stored, so that it would fail
		}
		return err
	})
	return r, run.Lease, err
}

// transact records that a transaction may end the run of a job, and returns the run, or nil
// if the job does not run here. cause is the reason if the run's context has ended.
func (e *Engine) transact(j amboy.Job) (run *core.Run, cause error) {
	e.coreMu.Lock()
	run = e.runs[j]
	if run == nil {
		e.coreMu.Unlock()
		return nil, nil
	}
	commands := e.step(core.Transacted{Run: run}, nil)
	cause = run.Cause()
	e.coreMu.Unlock()
	e.carryOut(commands)
	return run, cause
}

// isTransacted reports whether a transaction may have ended the run of a job.
func (e *Engine) isTransacted(j amboy.Job) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	run := e.runs[j]
	return run != nil && run.Transacted()
}

// MayEndInTransaction reports whether a transaction may have ended a job that runs in this queue. If so, Complete and
// CompleteLater return when that is known.
func (q *Queue) MayEndInTransaction(j amboy.Job) bool { return q.Engine.isTransacted(j) }

// firstReread and lastReread are the shortest and the longest wait before a job is read
// again to find out whether a transaction has ended it.
const (
	firstReread = 50 * time.Millisecond
	lastReread  = time.Second
)

// endTransacted finds out whether a transaction has ended a run that has returned. If so, it
// ends the run in this process too. While the store does not answer, it tries again until
// ctx ends. Then the job runs again when its lease expires, unless it has ended.
func (q *Queue) endTransacted(ctx context.Context, j amboy.Job, run *core.Run) (ended bool, err error) {
	r, err := q.committedEnd(ctx, j, run)
	if amboy.IsJobNotFoundError(err) { // it has ended, and was removed since
		q.endHere(run)
		q.Ended(ctx, j.ID())
		return true, nil
	}
	if err != nil {
		q.Engine.drop(run)
		return false, fmt.Errorf("checking whether its transaction was committed: %w", err)
	}
	if r == nil {
		return false, nil
	}
	if reported := j.Error(); reported != nil {
		logging.Warning(ctx, q.failure("a job reported an error after it ended in a committed transaction", j.ID(), reported))
	}
	q.endHere(run)
	q.afterCommit(ctx, j, r)
	return true, nil
}

// endHere ends a run in this process, without writing anything.
func (q *Queue) endHere(run *core.Run) {
	done := make(chan struct{})
	q.Engine.Finish(run, core.End{}, func(error) { close(done) })
	<-done
}

// handLostBack hands back a run that has lost its lease, and whose transaction was not committed by now.
func (q *Queue) handLostBack(ctx context.Context, j amboy.Job, run *core.Run) error {
	done := q.Engine.Result()
	q.Engine.Finish(run, handBackStarted, func(err error) { done <- err })
	if err := q.Engine.WaitForEnd(ctx, run, done); err != nil {
		return q.endedLate(ctx, j, run, err)
	}
	return amboy.ErrLeaseLost
}

// endedLate is called with the error of another end of a run. If that has lost its lease because the run's
// transaction was committed after endTransacted, endedLate is endTransacted.
func (q *Queue) endedLate(ctx context.Context, j amboy.Job, run *core.Run, failure error) error {
	if !run.Transacted() || !errors.Is(failure, amboy.ErrLeaseLost) {
		return failure
	}
	r, err := q.committedEnd(ctx, j, run)
	if err != nil {
		return errors.Join(failure, fmt.Errorf("checking again whether its transaction was committed: %w", err))
	}
	if r == nil {
		return failure
	}
	q.afterCommit(ctx, j, r)
	return nil
}

// committedEnd returns the end that a transaction has written, or nil.
func (q *Queue) committedEnd(ctx context.Context, j amboy.Job, run *core.Run) (*driver.Record, error) {
	r, err := q.rereadUntil(ctx, j.ID())
	if err != nil || !driver.HasEndedUnder(r, run.Lease) {
		return nil, err
	}
	q.followEnd(ctx, j.ID(), run.Lease)
	return r, nil
}

// afterCommit is afterEnd of an end that a transaction has written.
func (q *Queue) afterCommit(ctx context.Context, j amboy.Job, r *driver.Record) {
	j.SetStatus(r.Status)
	j.SetTimeInfo(r.TimeInfo)
	j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(false)})
	q.afterEnd(ctx, j, core.End{Record: r}, nil)
}

// followEnd is called when the transaction that ended a job was committed.
func (q *Queue) followEnd(ctx context.Context, id string, lease driver.Lease) {
	follower, ok := q.Driver.(driver.EndFollower)
	if !ok {
		return
	}
	err := contain.Panic(func() error {
		bounded, cancel := context.WithTimeout(ctx, DriverTimeout)
		defer cancel()
		follower.FollowEnd(bounded, lease)
		return nil
	})
	if err != nil {
		logging.Warning(ctx, q.failure("what follows from the end of a job is left to the store", id, err))
	}
}

// rereadUntil reads a job, and tries again until the store answers or ctx ends.
func (q *Queue) rereadUntil(ctx context.Context, id string) (*driver.Record, error) {
	for wait := firstReread; ; wait = min(2*wait, lastReread) {
		var r *driver.Record
		err := contain.Panic(func() (err error) {
			bounded, cancel := context.WithTimeout(ctx, DriverTimeout)
			defer cancel()
			r, err = q.Driver.Get(bounded, q.Name, id)
			return err
		})
		if err == nil || amboy.IsJobNotFoundError(err) || errors.Is(err, driver.ErrClosed) {
			return r, err
		}
		if ended := sleep.For(ctx, wait); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
}
