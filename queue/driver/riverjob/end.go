package riverjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// errTakesNoJobs is the error of a job that is put.
var errTakesNoJobs = errors.New("the queue runs the jobs of River's clients and takes no others: insert the job with a client of River, or put it in a queue of another store")

// Insert implements driver.Driver. It refuses all records.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	if _, err := d.callersTransaction(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(records))
	for i, r := range records {
		errs[i] = fmt.Errorf("inserting job %q: %w", r.JobID(), errTakesNoJobs)
	}
	return errs, nil
}

// remotely is the error of a job that an operator has canceled while it ran, in the words of River.
const remotely = "JobCancelError: job cancelled remotely"

// fail ends an attempt with an error. The next one is due after a delay, or after that of River's
// default policy if it is negative.
func (r *row) fail(start time.Time, text, trace string, delay time.Duration) {
	switch {
	case r.isToCancel():
		r.addError(start, remotely, trace)
		r.set(stateCancelled)
	case r.attempt >= r.maxAttempts:
		r.addError(start, text, trace)
		r.set(stateDiscarded)
	default:
		r.addError(start, text, trace)
		if delay < 0 {
			delay = r.retryDelay(rand.Float64())
		}
		r.unset(keyProgress) // the log stays in keyLog
		r.setDue(stateRetryable, delay)
	}
}

// releaseKey repairs the end of an attempt that can't be stored: its outcome must not be lost.
func releaseKey(r *row, cause error) {
	if isUnique(cause) {
		r.uniqueKey = nil
		return
	}
	r.addError(r.attemptedAt, fmt.Sprintf("the job's outcome can't be stored: %v", cause), "")
	r.unset(keyOutput)
	r.unset(keyProgress)
	r.set(stateDiscarded)
}

// leaveAlone keeps a row from being changed.
func leaveAlone(r *row, _ error) { *r = row{id: r.id} }

// holding is how rows are changed under their leases.
type holding struct {
	patience time.Duration
	in       pgx.Tx     // the transaction of the caller; nil for one of their own
	of       *selection // the only rows that are changed; nil for all
}

// changeHeld changes rows under their leases. The error of an item is that of edit, or ErrLeaseLost if
// its row does not have that lease, or ErrTooLarge if its content can't be stored, or ErrBlocked if its row
// stays locked until the patience is over.
func changeHeld[T any](ctx context.Context, d *Driver, how holding, items []T, leaseOf func(T) driver.Lease, edit func(*row, T) error, repair func(*row, error)) ([]error, error) {
	byID := map[int64][]int{} // several items may name a row, under leases of which at most one is its lease
	ids := make([]int64, 0, len(items))
	errs := make([]error, len(items))
	lost := func(i int) error {
		lease := leaseOf(items[i])
		return fmt.Errorf("record %q of queue %q: %w", lease.Name, lease.Queue, driver.ErrLeaseLost)
	}
	for i, item := range items {
		errs[i] = lost(i)
		id, ok := idOf(leaseOf(item))
		if !ok {
			continue
		}
		if byID[id] == nil {
			ids = append(ids, id)
		}
		byID[id] = append(byID[id], i)
	}
	held := map[int64]int{}
	tooLarge := map[int]error{}
	editHeld := func(r *row) {
		current := r.lease()
		held[r.id] = -1
		for _, i := range byID[r.id] {
			errs[i] = lost(i)
			lease := leaseOf(items[i])
			if held[r.id] < 0 && r.queue == lease.Queue && current.owner == lease.Owner && current.count == lease.Count {
				held[r.id] = i
				errs[i] = edit(r, items[i])
			}
		}
	}
	repairHeld := func(r *row, cause error) {
		repair(r, cause)
		if isUnstorable(cause) && held[r.id] >= 0 {
			tooLarge[held[r.id]] = fmt.Errorf("%w: %w", driver.ErrTooLarge, cause)
		}
	}
	locked, err := d.aroundLocked(ctx, how, ids, func(ids []int64) (seen []int64, err error) {
		s := byIDs(ids)
		s.skip, s.seen, s.in = true, &seen, how.in
		_, err = d.change(ctx, s, editHeld, repairHeld)
		return seen, err
	})
	if err != nil {
		return nil, err
	}
	for i, cause := range tooLarge {
		errs[i] = cause
	}
	for _, id := range locked {
		for _, i := range byID[id] {
			errs[i] = blockedError(leaseOf(items[i]))
		}
	}
	return errs, nil
}

// dropClaimed forgets what was claimed of the metadata of jobs whose ends are not repeated.
func dropClaimed[T any](d *Driver, items []T, leaseOf func(T) driver.Lease, errs []error) {
	for i, item := range items {
		if !driver.IsRepeatable(errs[i]) {
			d.claimed.Delete(leaseOf(item))
		}
	}
}

// Complete implements driver.Driver. If neither the definition nor the queue has a retry policy, or
// that of the queue says not to wait, the next attempt waits as River's default policy says. If ctx carries a
// transaction (see WithTx), Complete writes in it.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	theirs, err := d.callersTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("ending %d attempts in the caller's transaction: %w", len(completions), err)
	}
	how := holding{patience: patience, in: theirs}
	if theirs != nil {
		how.patience = endless // as a statement of the transaction
	}
	leaseOf := func(c driver.Completion) driver.Lease { return c.Lease }
	errs, err := changeHeld(ctx, d, how, completions, leaseOf, d.complete, releaseKey)
	if err != nil {
		return nil, fmt.Errorf("ending %d attempts: %w", len(completions), err)
	}
	if theirs == nil { // or they may have to be ended again
		dropClaimed(d, completions, leaseOf, errs)
	}
	d.changed(driver.InQueuesOf(completions, func(c driver.Completion) string { return c.Lease.Queue }))
	return errs, nil
}

func (d *Driver) complete(r *row, c driver.Completion) error {
	if r.hasEnded() {
		return fmt.Errorf("job %d has ended as %s: %w", r.id, r.state, driver.ErrLeaseLost)
	}
	ended := c.Record
	start := r.attemptedAt
	if r.state == stateRunning && !ended.TimeInfo.Start.IsZero() && ended.TimeInfo.Start.Before(r.now) {
		// Renewals have moved it.
		start = ended.TimeInfo.Start
		r.attemptedAt = start
	}
	before, _ := d.claimed.Load(c.Lease)
	r.mergeMetadata(before, ended.Metadata)
	r.putProgress(ended.Progress)
	if ended.Result != nil {
		r.put(keyOutput, fieldOf(*ended.Result, fieldValue))
	}
	text, trace := errorOf(ended)
	switch {
	case c.Next != nil:
		r.fail(start, text, trace, r.waitOf(c.Next.TimeInfo, ended.TimeInfo.End))
	case ended.RetryInfo.ShouldRetry():
		// The retry handler sets the time of the next attempt later, or ends the job. If it never
		// does, the job runs again all the same.
		r.fail(start, text, trace, -1)
		if r.isWaiting() {
			r.leaveUndecided()
		}
	default:
		r.end(driver.StateOf(ended, ended.TimeInfo.End), start, text, trace)
	}
	return nil
}

// end ends a job for good.
func (r *row) end(state amboy.JobState, start time.Time, text, trace string) {
	switch {
	case state == amboy.StateSucceeded:
		r.set(stateCompleted)
		return
	case r.isToCancel():
		text = remotely
		r.set(stateCancelled)
	case state == amboy.StateCanceled:
		r.set(stateCancelled)
	default:
		r.set(stateDiscarded)
	}
	r.addError(start, text, trace)
}

// errorOf returns the errors of the attempt of an ended record as one, because River has one for each
// attempt.
func errorOf(ended *driver.Record) (text, trace string) {
	for _, e := range ended.Status.Attempts {
		if e.Attempt == ended.RetryInfo.CurrentAttempt && e.Stack != "" {
			trace = e.Stack
		}
	}
	text = strings.Join(ended.Status.Errors, "\n")
	if text == "" {
		text = ended.Status.Reason
	}
	return text, trace
}

// waitOf returns how long an attempt waits after the end of the previous one; -1 if no retry policy
// says so.
func (r *row) waitOf(next amboy.JobTimeInfo, end time.Time) time.Duration {
	if next.WaitUntil.IsZero() && !hasRetryPolicy(r.kind) {
		return -1
	}
	return max(0, next.WaitUntil.Sub(end))
}

// Release implements driver.Driver. A job that is to wait until a time was snoozed, in River's words.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	leaseOf := func(h driver.HandBack) driver.Lease { return h.Lease }
	errs, err := changeHeld(ctx, d, holding{patience: patience}, handBacks, leaseOf, release, releaseKey)
	if err != nil {
		return nil, fmt.Errorf("handing back %d jobs: %w", len(handBacks), err)
	}
	dropClaimed(d, handBacks, leaseOf, errs)
	if slices.ContainsFunc(handBacks, func(h driver.HandBack) bool { return h.NotBefore.IsZero() }) {
		d.floors.drop()
	}
	d.changed(driver.InQueuesOf(handBacks, func(h driver.HandBack) string { return h.Lease.Queue }))
	return errs, nil
}

func release(r *row, h driver.HandBack) error {
	switch {
	case r.state != stateRunning:
		return fmt.Errorf("job %d does not run: %w", r.id, driver.ErrLeaseLost)
	case r.isToCancel():
		r.set(stateCancelled)
		return nil
	case h.Park:
		r.park(h.Reason)
	case h.NotBefore.IsZero():
		r.set(stateAvailable)
	default:
		since := h.Since
		if since.IsZero() {
			since = time.Now()
		}
		r.setDue(stateScheduled, h.NotBefore.Sub(since))
		r.put(keySnoozes, r.number(keySnoozes)+1)
	}
	r.giveBack()
	return nil
}

// park sets a job aside.
func (r *row) park(reason string) {
	r.set(statePending)
	r.put(keyParked, storable(reason))
}

// Retry implements driver.Driver. Complete has let the job wait for its next attempt already; Retry
// sets for how long.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	return d.settleRetry(ctx, ended, func(r *row) {
		wait := r.waitOf(next.TimeInfo, next.TimeInfo.Created)
		if wait < 0 {
			wait = r.retryDelay(rand.Float64())
		}
		r.setDue(stateRetryable, wait)
	})
}

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	if ended.RetryInfo.GetRemainingAttempts() == 0 {
		return d.usable(ctx) // Complete has ended the job, and an operator may have retried it since.
	}
	return d.settleRetry(ctx, ended, func(r *row) {
		if driver.StateOf(ended, ended.TimeInfo.End) == amboy.StateCanceled {
			r.set(stateCancelled)
			return
		}
		r.set(stateDiscarded)
	})
}

// leaveUndecided lets the retry handler decide on the next attempt later.
func (r *row) leaveUndecided() {
	r.scheduledAt = r.scheduledAt.Truncate(time.Microsecond) // as it is stored
	r.put(keyUndecided, r.scheduledAt)
}

// isUndecided reports whether the retry handler may still decide on the next attempt: it was not claimed, and no operator has
// given it another time, by a retry for instance. The handler may have been suspended.
func (r *row) isUndecided() bool {
	var at time.Time
	return r.isWaiting() && json.Unmarshal(r.metadata[keyUndecided], &at) == nil && at.Equal(r.scheduledAt)
}

// settleRetry changes a row whose attempt failed and whose next attempt was not claimed.
func (d *Driver) settleRetry(ctx context.Context, ended *driver.Record, edit func(*row)) error {
	result := fmt.Errorf("job %q does not await its retry: %w", ended.JobID(), driver.ErrLeaseLost)
	id, ok := idOf(driver.LeaseOf(ended))
	if !ok {
		return result
	}
	lost := result
	_, err := d.change(ctx, byIDs([]int64{id}), func(r *row) {
		result = lost
		if int(r.attempt) != ended.RetryInfo.CurrentAttempt+1 || r.queue != ended.Group {
			return
		}
		switch {
		case r.isUndecided():
			result = nil
			r.unset(keyUndecided)
			edit(r)
		case r.hasEnded():
			result = nil // it was its last attempt, or it was canceled
		}
	}, releaseKey)
	if err != nil {
		return fmt.Errorf("settling the retry of job %q: %w", ended.JobID(), err)
	}
	d.changed(driver.In(ended.Group))
	return result
}

// Save implements driver.Driver. It stores the arguments and the metadata.
func (d *Driver) Save(ctx context.Context, record *driver.Record) error {
	id, ok := idOf(driver.LeaseOf(record))
	missing := amboy.NewJobNotFoundErrorf("queue %q has no job %q", record.Group, record.JobID())
	if !ok {
		return missing
	}
	var result error = missing
	_, err := d.change(ctx, byIDs([]int64{id}), func(r *row) {
		if r.queue != record.Group {
			return
		}
		stored := r.record()
		if _, result = driver.CheckSave(stored, record); result != nil {
			return
		}
		before, _ := d.claimed.Load(driver.LeaseOf(stored))
		r.mergeMetadata(before, record.Metadata)
		r.newArgs = new(string(fieldOf(record.Job, fieldArgs)))
		r.edited = true
	}, func(_ *row, cause error) { result = fmt.Errorf("%w: %w", driver.ErrTooLarge, cause) })
	if err != nil {
		return fmt.Errorf("saving job %q: %w", record.JobID(), err)
	}
	return result
}

// SetProgress implements driver.Driver.
func (d *Driver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	errs, err := changeHeld(ctx, d, holding{patience: endless}, []driver.Lease{lease}, func(l driver.Lease) driver.Lease { return l }, func(r *row, _ driver.Lease) error {
		if r.state != stateRunning {
			return fmt.Errorf("job %d does not run: %w", r.id, driver.ErrLeaseLost)
		}
		r.putProgress(&progress)
		return nil
	}, leaveAlone)
	if err != nil {
		return fmt.Errorf("storing the progress of record %q: %w", lease.Name, err)
	}
	return errs[0]
}
