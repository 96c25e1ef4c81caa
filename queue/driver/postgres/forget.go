package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
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

// Forget implements driver.Driver. It removes about 1,000 records per transaction. Records on which an
// open transaction of a caller lets a new one depend are left for a later call. If it fails
// after some were removed, it returns their number with the error.
func (d *Driver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("forgetting finished records: %w", err)
	}
	defer done()
	forgotten := 0
	last := endingKey{at: math.MinInt64}
	for more := true; more && forgotten < limit; {
		n, next := 0, last
		err = d.transact(ctx, noQueue, func(c *changes) (err error) {
			next = last
			n, more, err = c.forget(&next, table.InstantOf(now).Int64, limit-forgotten)
			return err
		})
		if err != nil {
			return forgotten, partly("forgetting finished records", forgotten, err)
		}
		forgotten += n
		last = next
	}
	return forgotten, nil
}

// endingKey is the key of a row of the log of endings.
type endingKey struct{ at, id int64 }

// forget removes records of the first rows of the log of endings after the last one, which it changes.
// more is false if no row is due any more. A row lists jobs whose retention ends within the same second;
// jobs that must still be kept get another row.
func (c *changes) forget(last *endingKey, now int64, limit int) (forgotten int, more bool, err error) {
	for range endingsAtOnce {
		var key endingKey
		var seqs []int64
		found, err := c.one(endingDue, func(r *row) { key.at, key.id, seqs = r.integer(), r.integer(), r.numbers() }, now, last.at, last.id)
		if err == nil && !found {
			// Another call may have taken the row that this one waited for.
			more, err = c.one(anyEndingDue, func(*row) {}, now, last.at, last.id)
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
		*last = key
		c.exec(dropEnding, key.at, key.id)
		if n < len(seqs) {
			c.exec(relogEnding, seqs, now)
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
