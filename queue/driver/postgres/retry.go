package postgres

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// awaitingRetry returns the row of a record that awaits its retry.
func (c *changes) awaitingRetry(queue queueKey, e *table.Ending) (j *job, refusal, err error) {
	j, err = c.named(queue, e.Name)
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
	if err == nil {
		err = d.one(ctx, ended.Group, func(c *changes, queue queueKey) (refusal, err error) {
			j, refusal, err := c.awaitingRetry(queue, e)
			if refusal != nil || err != nil {
				return refusal, err
			}
			return nil, c.end(j, e)
		})
	}
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
	n, err := encodeNew(0, next)
	if err != nil {
		return fail(err)
	}
	err = d.one(ctx, ended.Group, func(c *changes, queue queueKey) (refusal, err error) { return c.retry(queue, e, n) })
	if err != nil {
		return fail(err)
	}
	return nil
}

func (c *changes) retry(queue queueKey, e *table.Ending, next *newRecord) (refusal, err error) {
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

// replaceByNext replaces an attempt that runs or awaits its retry by the next attempt, which inherits its
// scopes, dependencies and dependents. A failed dependency does not block the next attempt.
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
	line, err := c.lineOf(&next.job)
	if err != nil {
		return err
	}
	next.line = line
	c.insertion = nil // it must not precede what replaces the attempt
	err = c.insertAt(next, table.Waiting)
	if err != nil {
		return err
	}
	if next.WaitUntil.Valid {
		c.exec(setSince, next.Created, next.Seq)
	}
	if len(next.Edges) > 0 {
		c.exec(insertEnded, next.queue, next.Seq, next.Edges)
	}
	err = c.free(j, nameset.Without(held, next.EnqueueScopes))
	if err != nil {
		return err
	}
	return c.wait(&next.job, c.now)
}
