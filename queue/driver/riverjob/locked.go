package riverjob

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// A transaction of another program can hold the lock of a row for long: a client that inserts a duplicate of
// a unique job, for instance, writes the existing row. Renewals and ends of many jobs share a statement, so
// all of them would wait for that row, until the leases are over.

const (
	// patience is how long renewals and ends wait for rows that are locked. Transactions of this package are
	// shorter.
	patience = time.Second
	endless  = time.Duration(math.MaxInt64)
)

// aroundLocked changes rows, first those that no other transaction has locked. change returns the ids of
// those that it found without such a lock. If rows stay locked until the patience is over, their ids are
// returned.
func (d *Driver) aroundLocked(ctx context.Context, how holding, ids []int64, change func(ids []int64) (seen []int64, err error)) (locked []int64, err error) {
	patience := how.patience
	if end, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(end)/2)
	}
	begin := time.Now()
	for {
		seen, err := change(ids)
		if err != nil {
			return nil, err
		}
		ids = slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return slices.Contains(seen, id) })
		if len(ids) > 0 {
			ids, err = d.existing(ctx, how, ids)
		}
		if err != nil || len(ids) == 0 || time.Since(begin) > patience {
			return ids, err
		}
		err = sleep.For(ctx, 10*time.Millisecond+time.Duration(rand.Int64N(int64(20*time.Millisecond))))
		if err != nil {
			return nil, err
		}
	}
}

// existing returns the ids that rows have. A transaction of a caller is used if there is one: such transactions may
// hold all connections of the pool, and would wait for each other.
func (d *Driver) existing(ctx context.Context, how holding, ids []int64) (found []int64, err error) {
	query := d.pool.Query
	if how.in != nil {
		query = how.in.Query
	}
	s := byIDs(ids)
	if how.of != nil {
		s = how.of.among(ids)
	}
	rows, err := query(ctx, d.sql(`SELECT id FROM {s}.river_job WHERE `+s.where), s.args...)
	var id int64
	if err == nil {
		err = scanEach(rows, func() { found = append(found, id) }, &id)
	}
	return found, d.failed(err, false)
}

// blockedError is the error of the change of a job whose row stayed locked.
func blockedError(l driver.Lease) error {
	return fmt.Errorf("record %q: %w", l.Name, driver.ErrBlocked)
}
