package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// ending is a record whose attempt ended.
type ending struct {
	lease     driver.Lease
	record    *driver.Record
	encoded   []byte
	to        place // finished or retrying
	succeeded bool
}

// newEnding encodes the record of an attempt that ended, and will not be
// retried.
func newEnding(name string, r *driver.Record) (*ending, error) {
	named := *r
	named.Name = name
	encoded, err := encode(&named)
	return &ending{
		record:    &named,
		encoded:   encoded,
		to:        finished,
		succeeded: driver.StateOf(r, time.Now()) == amboy.StateSucceeded,
	}, err
}

// Complete implements driver.Driver. A record that never ran can be completed
// too, under the lease that it shows: then it never will.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	endings := make([]*ending, len(completions))
	for i, completion := range completions {
		e, err := newEnding(completion.Lease.Name, completion.Record)
		if err != nil {
			return nil, err
		}
		e.lease = completion.Lease
		if e.record.RetryInfo.ShouldRetry() {
			e.to = retrying
		}
		endings[i] = e
	}
	errs, err := each(ctx, d, endings, (*changes).complete)
	if err != nil {
		return nil, fmt.Errorf("completing %d records: %w", len(completions), err)
	}
	return errs, nil
}

func (c *changes) complete(e *ending) (refusal, err error) {
	status := e.record.Status
	n, err := c.exec(endRunning, c.queue, e.lease.Name, e.lease.Owner, e.lease.Count, int(e.to),
		status.Owner, status.ModificationCount, nanoseconds(status.ModificationTime), e.succeeded, time.Now().UnixNano(), e.encoded)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		c.counts[running]--
		c.counts[e.to]++
		if e.to == finished {
			c.ended++
		}
		return nil, nil
	}
	// It does not run, or others wait for it, or it for them.
	j, refusal, err := c.shown(e.lease)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return nil, c.end(j, e)
}

// end ends an attempt, wherever its record stands.
func (c *changes) end(j *job, e *ending) error {
	if err := c.replace(j, e, true); err != nil {
		return err
	}
	if e.to == retrying {
		return c.free(j.id, j.dispatchScopes())
	}
	if err := c.free(j.id, j.scopes); err != nil {
		return err
	}
	return c.unlink(j, e.succeeded)
}

// replace stores the record of an attempt that ended, and takes the row out of
// its place. It tells whether the attempt stays the latest.
func (c *changes) replace(j *job, e *ending, latest bool) error {
	status := e.record.Status
	_, err := c.exec(endAny, j.seq, status.Owner, status.ModificationCount, nanoseconds(status.ModificationTime),
		e.succeeded, time.Now().UnixNano(), e.encoded, latest)
	if err != nil {
		return err
	}
	wasReady := j.place == ready
	err = c.move(j, e.to, nil, nil)
	if err != nil {
		return err
	}
	if e.to == finished {
		c.ended++
	}
	if wasReady {
		return c.withdraw(j)
	}
	return nil
}

// awaitingRetry returns the row of a record that awaits its retry.
func (c *changes) awaitingRetry(name string) (j *job, refusal, err error) {
	j, err = c.job(findByName, c.queue, name)
	if err != nil {
		return nil, nil, err
	}
	if j == nil || j.place != retrying {
		return nil, fmt.Errorf("record %q does not await a retry: %w", name, driver.ErrLeaseLost), nil
	}
	return j, nil, nil
}

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	e, err := newEnding(ended.Name, ended)
	if err != nil {
		return err
	}
	err = only(ctx, d, e, func(c *changes, e *ending) (refusal, err error) {
		j, refusal, err := c.awaitingRetry(e.record.Name)
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
	e, err := newEnding(ended.Name, ended)
	if err != nil {
		return err
	}
	s, err := newStored(next)
	if err != nil {
		return err
	}
	err = only(ctx, d, e, func(c *changes, e *ending) (refusal, err error) { return c.retry(e, s) })
	if err != nil {
		return fmt.Errorf("replacing record %q by its next attempt %q: %w", ended.Name, next.Name, err)
	}
	return nil
}

func (c *changes) retry(e *ending, next *stored) (refusal, err error) {
	j, refusal, err := c.awaitingRetry(e.record.Name)
	if refusal != nil || err != nil {
		return refusal, err
	}
	taken, err := c.job(findByName, c.queue, next.name)
	if err != nil {
		return nil, err
	}
	if taken != nil {
		return duplicate(&next.job), nil
	}
	refusal, err = c.checkFree(j.id, next.enqueueScopes)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return nil, c.replaceByNext(j, e, next)
}

// replaceByNext puts the next attempt in the place of one that awaits it. What
// the one holds, what it depends on and who depends on it pass to the other. That
// its edges failed is not held against the next.
func (c *changes) replaceByNext(j *job, e *ending, next *stored) error {
	if err := c.take(j.id, next.enqueueScopes); err != nil {
		return err
	}
	if err := c.replace(j, e, false); err != nil {
		return err
	}
	next.id, next.open, next.dependents, next.failed = j.id, j.open, j.dependents, nil
	refusal, err := c.insertAt(next, waiting)
	err = firstOf(err, refusal)
	if err != nil {
		return err
	}
	err = c.free(j.id, without(j.enqueueScopes, next.enqueueScopes))
	if err != nil || next.open > 0 {
		return err
	}
	added, err := c.job(findByName, c.queue, next.name)
	if err != nil {
		return err
	}
	return c.wait(added, time.Now().UnixNano())
}

func firstOf(err, refusal error) error {
	if err != nil {
		return err
	}
	return refusal
}

// Save implements driver.Driver.
func (d *Driver) Save(ctx context.Context, r *driver.Record) error {
	err := only(ctx, d, r, (*changes).save)
	if err != nil {
		return fmt.Errorf("saving record %q: %w", r.Name, err)
	}
	return nil
}

func (c *changes) save(r *driver.Record) (refusal, err error) {
	var seq int64
	var encoded []byte
	found, err := c.one(readRecord, []any{&seq, &encoded}, c.queue, r.Name)
	if err != nil {
		return nil, err
	}
	if !found {
		return notFound(r.Name), nil
	}
	kept, err := registry.DecodeJobInterchange(encoded, amboy.BSON2)
	if err != nil {
		return err, nil //nolint:nilerr // It is the error of this record alone.
	}
	driver.CopyContent(kept, r)
	encoded, err = encode(kept)
	if err != nil {
		return nil, err
	}
	_, err = c.exec(saveRecord, seq, encoded)
	return nil, err
}

func notFound(id string) error { return amboy.NewJobNotFoundErrorf("there is no job %q", id) }
