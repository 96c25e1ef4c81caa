package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// endingsAtOnce is the maximum number of rows of the log of endings whose records are removed in
// one transaction. After forgetAtOnce records it takes no other row.
const (
	endingsAtOnce = 200
	forgetAtOnce  = 1000
)

// Forget implements driver.Driver. It removes about 1,000 records per transaction. If it fails
// after some were removed, it returns their number with the error.
func (d *Driver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("forgetting finished records: %w", err)
	}
	defer done()
	forgotten := 0
	for more := true; more && forgotten < limit; {
		n := 0
		err = d.transact(ctx, noQueue, func(c *changes) (err error) {
			n, more, err = c.forget(table.InstantOf(now).Int64, limit-forgotten)
			return err
		})
		if err != nil {
			return forgotten, partly("forgetting finished records", forgotten, err)
		}
		forgotten += n
	}
	return forgotten, nil
}

// forget removes records of the first rows of the log of endings. more is false if no row is due
// any more. A row lists jobs whose retention ends within the same second; jobs that must still be
// kept get another row.
func (c *changes) forget(now int64, limit int) (forgotten int, more bool, err error) {
	for range endingsAtOnce {
		var at, id int64
		var seqs []int64
		found, err := c.one(endingDue, func(r *row) { at, id, seqs = r.integer(), r.integer(), r.numbers() }, now)
		if err == nil && !found {
			// Another call may have taken the row that this one waited for.
			more, err = c.one(anyEndingDue, func(*row) {}, now)
			if more && err == nil {
				continue
			}
		}
		if err != nil || !found {
			return forgotten, false, err
		}
		n, err := c.forgetJobs(seqs, now, limit-forgotten)
		if err != nil {
			return forgotten, false, err
		}
		forgotten += n
		c.exec(dropEnding, at, id)
		if n < len(seqs) {
			c.exec(relogEnding, seqs)
		}
		if forgotten >= min(limit, forgetAtOnce) {
			break
		}
	}
	return forgotten, true, nil
}

// forgetJobs removes the given jobs whose retention is over.
func (c *changes) forgetJobs(seqs []int64, now int64, limit int) (n int, err error) {
	var withEdges []int64
	err = c.query(forgetJobs, func(r *row) error {
		queue, seq := r.key(), r.integer()
		c.count(queue, table.Place(r.integer()), gone)
		n++
		if r.bool() {
			withEdges = append(withEdges, seq)
		}
		return nil
	}, seqs, now, limit)
	if err == nil && len(withEdges) > 0 {
		c.exec(dropEdges, withEdges)
	}
	return n, err
}

// Prune implements driver.Driver. It drops nothing: the tallies of a queue stay.
func (d *Driver) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	return 0, cmp.Or(req.Validate(), ctx.Err())
}
