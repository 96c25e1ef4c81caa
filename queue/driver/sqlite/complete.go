package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// ending is a completion.
type ending struct {
	*table.Ending
	lease   driver.Lease
	refusal error // why it can't be stored
	// next is the next attempt if it is stored together with the end.
	next *newRecord
}

// isPlain reports whether the end changes neither the progress nor the owner.
func (e *ending) isPlain() bool { return e.Progress == nil && e.Owner == e.lease.Owner }

// values appends the arguments of endContent.
func values(args []any, c *table.Record) []any {
	return append(args, c.Count, c.ModTime, c.Created, c.Started, c.Ended, c.WaitUntil, c.DispatchBy, c.MaxTime,
		c.ErrorCount, nullable(c.LastError), nullable(c.Reason), c.ForgetAt, c.Type, c.Version, c.Format, c.Dependency, blob(c.Extra), c.Body)
}

// Complete implements driver.Driver. A record that never ran can also be completed, under
// the lease that it shows; it will not run afterwards.
//
// If ctx carries a transaction (see WithTx), Complete writes in it.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	tx, err := transactionOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("completing %d records in the caller's transaction: %w", len(completions), err)
	}
	endings := make([]*ending, len(completions))
	for i, completion := range completions {
		e := &ending{lease: completion.Lease}
		e.Ending, e.refusal = table.NewEnding(completion.Lease.Name, completion.Record)
		if e.refusal == nil && completion.Next != nil {
			e.Replaced = true
			e.next, e.refusal = encodeNext(completion.Next)
		}
		endings[i] = e
	}
	var errs []error
	if tx != nil {
		err = d.changeIn(ctx, tx, func(c *changes) (err error) {
			errs, err = applyEach(c, endings, (*changes).complete)
			return err
		})
	} else {
		errs, err = each(ctx, d, endings, func(e *ending) string { return e.lease.Queue }, (*changes).complete)
	}
	if err != nil {
		return nil, fmt.Errorf("completing %d records: %w", len(completions), err)
	}
	return errs, nil
}

func (c *changes) complete(e *ending) (refusal, err error) {
	if e.refusal != nil {
		return e.refusal, nil
	}
	queue, err := c.queue(e.lease.Queue)
	if err != nil {
		return nil, err
	}
	if e.next != nil {
		return c.completeAndRetry(queue, e)
	}
	if e.isPlain() && e.To != table.Retrying {
		args := values(append(make([]any, 0, 24), e.To), &e.Record)
		var n int64
		n, err = c.exec(endPlain, append(args, queue, e.lease.Name, e.lease.Owner, e.lease.Count, e.lease.Stamp)...)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			c.ended(queue, table.Running, e.To)
			return nil, nil
		}
	}
	// The record is not running, or it holds scopes, or other records depend on it, or it was
	// to be canceled.
	j, refusal, err := c.shown(e.lease)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if j.Cancel {
		return nil, c.endCanceledRun(j, e.Ending)
	}
	return nil, c.end(j, e.Ending)
}

// completeAndRetry ends an attempt and replaces it by the next.
func (c *changes) completeAndRetry(queue int64, e *ending) (refusal, err error) {
	next := e.next
	if e.isPlain() && next.isSimple() {
		next.queue = queue
		args := values(append(make([]any, 0, 24), e.To), &e.Record)
		var n int64
		n, err = c.exec(endReplaced, append(args, queue, e.lease.Name, e.lease.Owner, e.lease.Count, e.lease.Stamp, queue, next.Name)...)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			c.ended(queue, table.Running, e.To)
			return nil, c.insertAt(next, next.FirstPlace(time.Now().UnixNano()))
		}
	}
	j, refusal, err := c.shown(e.lease)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if j.Cancel {
		return nil, c.endCanceledRun(j, e.Ending)
	}
	refusal, err = c.checkNext(j, next)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if j.Open { // it did not wait until all its dependencies ended
		if _, err = c.exec(leaveEdges, j.Seq); err != nil {
			return nil, err
		}
	}
	return nil, c.replaceByNext(j, e.Ending, next)
}

// isSimple reports whether a next attempt needs only its row, if it inherits nothing from
// the attempt before.
func (n *newRecord) isSimple() bool {
	return len(n.Scopes) == 0 && len(n.EnqueueScopes) == 0 && len(n.Edges) == 0 && n.UniqueKey == ""
}

// checkNext refuses a next attempt that can't replace a record.
func (c *changes) checkNext(j *job, next *newRecord) (refusal, err error) {
	taken, err := c.named(j.queue, next.Name)
	if err != nil {
		return nil, err
	}
	if taken != nil {
		return next.Duplicate(taken.ID), nil
	}
	return c.checkFree(j, next.EnqueueScopes)
}

// endCanceledRun ends an attempt that was to be canceled.
func (c *changes) endCanceledRun(j *job, e *table.Ending) error {
	var reason string
	var forgetAt table.Instant
	_, err := c.one(readMark, func(r *row) { reason, forgetAt = r.text(), r.time() }, j.Seq)
	if err == nil {
		e, err = e.Canceled(reason, forgetAt)
	}
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// ended counts a record that ended an attempt.
func (c *changes) ended(queue int64, from, to table.Place) {
	n := c.count(queue)
	n.places[from]--
	n.places[to]++
	if to.Final() {
		n.ended++
	}
}

// end ends an attempt, whatever place its record has.
func (c *changes) end(j *job, e *table.Ending) error {
	if err := c.replace(j, e); err != nil {
		return err
	}
	if j.Open { // it did not wait until all its dependencies ended
		if _, err := c.exec(leaveEdges, j.Seq); err != nil {
			return err
		}
	}
	if e.To == table.Retrying {
		return c.free(j, j.DispatchScopes())
	}
	if err := c.free(j, j.AllScopes()); err != nil {
		return err
	}
	return c.releaseDependents(j)
}

// replace stores the record of an ended attempt, and moves the row to its final place.
func (c *changes) replace(j *job, e *table.Ending) error {
	keepsKey := !e.Replaced && j.KeepsKey(e.To)
	args := values([]any{e.Replaced, blob(e.Progress), keepsKey, e.Owner}, &e.Record)
	if _, err := c.exec(endAny, append(args, j.Seq)...); err != nil {
		return err
	}
	if e.Replaced && !j.Attempt.Valid { // the job became retryable while it ran
		if _, err := c.exec(setAttempt, j.Seq); err != nil {
			return err
		}
	}
	wasReady := j.Place == table.Ready
	if err := c.move(j, e.To, table.Instant{}); err != nil {
		return err
	}
	if e.To.Final() {
		c.count(j.queue).ended++
	}
	if wasReady {
		return c.withdraw(j)
	}
	return nil
}

// awaitingRetry returns the row of a record that awaits its retry.
func (c *changes) awaitingRetry(queue string, e *table.Ending) (j *job, refusal, err error) {
	key, err := c.queue(queue)
	if err == nil {
		j, err = c.named(key, e.Name)
	}
	if err != nil {
		return nil, nil, err
	}
	if j == nil || !e.IsAwaitedBy(&j.Job) {
		return nil, fmt.Errorf("record %q does not await a retry: %w", e.Name, driver.ErrLeaseLost), nil
	}
	return j, nil, nil
}

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	e, err := table.NewFinalEnding(ended)
	if err != nil {
		return fmt.Errorf("ending the retry of record %q: %w", ended.Name, err)
	}
	err = only(ctx, d, e, ended.Group, func(c *changes, e *table.Ending) (refusal, err error) {
		j, refusal, err := c.awaitingRetry(ended.Group, e)
		if refusal != nil || err != nil {
			return refusal, err
		}
		return nil, c.end(j, e)
	})
	if err != nil {
		return fmt.Errorf("ending the retry of record %q: %w", ended.Name, err)
	}
	return nil
}

// Retry implements driver.Driver.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	fail := func(err error) error {
		return fmt.Errorf("replacing record %q by its next attempt %q: %w", ended.Name, next.Name, err)
	}
	e, err := table.NewFinalEnding(ended)
	if err != nil {
		return fail(err)
	}
	e.Replaced = true
	n, err := encodeNext(next)
	if err != nil {
		return fail(err)
	}
	err = only(ctx, d, e, ended.Group, func(c *changes, e *table.Ending) (refusal, err error) { return c.retry(ended.Group, e, n) })
	if err != nil {
		return fail(err)
	}
	return nil
}

func (c *changes) retry(queue string, e *table.Ending, next *newRecord) (refusal, err error) {
	j, refusal, err := c.awaitingRetry(queue, e)
	if refusal != nil || err != nil {
		return refusal, err
	}
	refusal, err = c.checkNext(j, next)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return nil, c.replaceByNext(j, e, next)
}

// replaceByNext replaces an attempt that is running or awaits its retry by the next
// attempt, which inherits its scopes, dependencies and dependents. A failed dependency
// does not block the next attempt.
func (c *changes) replaceByNext(j *job, e *table.Ending, next *newRecord) error {
	held := j.EnqueueScopes
	if j.Place == table.Running {
		held = j.AllScopes()
	}
	if err := c.take(j, next.EnqueueScopes); err != nil {
		return err
	}
	if err := c.replace(j, e); err != nil {
		return err
	}
	next.queue, next.ID, next.Dependents = j.queue, j.ID, j.Dependents
	next.UniqueKey, next.UniqueUntil, next.UniqueHeld = j.UniqueKey, j.UniqueUntil, j.UniqueHeld
	if err := c.insertAt(next, table.Waiting); err != nil {
		return err
	}
	if len(next.Edges) > 0 {
		if _, err := c.exec(insertEnded, next.queue, next.Seq, next.Edges); err != nil {
			return err
		}
	}
	if err := c.free(j, nameset.Without(held, next.EnqueueScopes)); err != nil {
		return err
	}
	return c.wait(&next.job, time.Now().UnixNano())
}

// Save implements driver.Driver. If ctx carries a transaction (see WithTx), Save writes in it.
func (d *Driver) Save(ctx context.Context, r *driver.Record) (err error) {
	if tx := d.ownTransaction(ctx); tx != nil {
		err = d.changeIn(ctx, tx, func(c *changes) error {
			refusal, failure := c.save(r)
			return errors.Join(refusal, failure)
		})
	} else {
		err = only(ctx, d, r, r.Group, (*changes).save)
	}
	if err != nil {
		return fmt.Errorf("saving record %q: %w", r.Name, err)
	}
	return nil
}

func (c *changes) save(r *driver.Record) (refusal, err error) {
	queue, err := c.queue(r.Group)
	if err != nil {
		return nil, err
	}
	found, err := c.records(readByName, queue, r.Name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return table.NotFound(r.Name), nil
	}
	kept, err := found[0].decode(r.Group)
	if err != nil {
		return err, nil //nolint:nilerr // It is the error of this record alone.
	}
	n, relocked, refusal := table.ApplySave(kept, r)
	if refusal != nil {
		return refusal, nil
	}
	err = c.saveContent(&n, found[0].Seq)
	if err == nil && relocked {
		_, err = c.exec(saveLock, n.Owner, n.Count, n.ModTime, n.ModTime, found[0].Seq)
	}
	return nil, err
}

// saveContent stores what Save replaces of a record.
func (c *changes) saveContent(n *table.Record, seq int64) error {
	_, err := c.exec(saveRecord, n.Type, n.Version, n.Format, n.ErrorCount, nullable(n.LastError), blob(n.Extra), n.Body, seq)
	return err
}
