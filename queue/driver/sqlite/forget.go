package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// forgetAtOnce is the maximum number of records that are removed in one transaction, so
// that other callers do not wait long.
const forgetAtOnce = 1000

// Forget implements driver.Driver. It removes 1,000 records at a time. If it fails after
// some were removed, it returns their number with the error. A call that finds nothing does not
// block writers.
func (d *Driver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	forgotten := 0
	for forgotten < limit {
		want := min(limit-forgotten, forgetAtOnce)
		n, err := d.forget(ctx, now.UnixNano(), want)
		if err != nil {
			return forgotten, fmt.Errorf("forgetting finished records: %w", err)
		}
		forgotten += n
		if n < want {
			break
		}
	}
	return forgotten, nil
}

// finishedRecords describes the finished records of a queue.
type finishedRecords struct {
	queue int64
	count int
	// first is the earliest retention time; not valid if no record has one.
	first table.Instant
}

// forget removes up to limit records. It finds their queues before it acquires the right to write: most
// often there are none, and there may be many queues.
func (d *Driver) forget(ctx context.Context, now int64, limit int) (int, error) {
	var queues []int64
	err := d.reads.query(ctx, readQueuesToForget, func(r *row) error {
		queues = append(queues, r.integer())
		return nil
	}, now, d.opts.KeepFinished, limit)
	if err != nil || len(queues) == 0 {
		return 0, err
	}
	n := 0
	err = d.writer.write(ctx, &change{size: limit, run: func(c *changes) (err error) {
		n, err = c.forget(queues, now, limit, d.opts.KeepFinished)
		return err
	}})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// readQueuesToForget finds the first queues that have more records than are kept, or records whose retention
// is over or can't be read. Each of them has a record to remove, so as many queues as records are enough.
const readQueuesToForget = `SELECT id FROM (
		SELECT id, finished, (SELECT forget_at FROM jobs WHERE queue = queues.id AND place >= 8 AND forget_at IS NOT NULL
			ORDER BY forget_at LIMIT 1) AS first FROM queues WHERE finished > 0)
	WHERE first <= ?1 OR finished > ?2 OR typeof(first) NOT IN ('integer', 'null')
	ORDER BY finished > ?2 DESC, first LIMIT ?3 + 0`

// forget removes up to limit records of some queues.
func (c *changes) forget(queues []int64, now int64, limit, keep int) (forgotten int, err error) {
	err = c.flush()
	if err != nil {
		return 0, err
	}
	all := make([]*finishedRecords, len(queues))
	for i, queue := range queues {
		f := &finishedRecords{queue: queue}
		all[i] = f
		_, err = c.one(countFinished, func(r *row) { f.count = r.int() }, queue)
		if err != nil {
			return 0, err
		}
		var n int
		n, err = c.forgetExcess(f, min(f.count-keep, limit-forgotten))
		if err != nil {
			return 0, err
		}
		forgotten += n
	}
	n, err := c.forgetDue(all, now, limit-forgotten)
	return forgotten + n, err
}

// forgetExcess removes records beyond the maximum number of a queue.
func (c *changes) forgetExcess(f *finishedRecords, excess int) (forgotten int, err error) {
	if excess <= 0 {
		return 0, nil
	}
	forgotten, err = c.forgetFirst(f, math.MaxInt64, excess)
	if err != nil || forgotten == excess {
		return forgotten, err
	}
	timeless, err := c.forgetTimeless(f, excess-forgotten)
	return forgotten + timeless, err
}

// forgetDue removes records whose retention is over, in the order of its end.
func (c *changes) forgetDue(all []*finishedRecords, now int64, limit int) (forgotten int, err error) {
	var due []*finishedRecords
	for _, f := range all {
		err = c.readFirst(f)
		if err != nil {
			return 0, err
		}
		if f.isDue(now) {
			due = append(due, f)
		}
	}
	slices.SortFunc(due, (*finishedRecords).compare)
	for len(due) > 0 && forgotten < limit {
		f, until := due[0], now
		if due = due[1:]; len(due) > 0 {
			until = due[0].first.Int64 // from then on it is the turn of that queue
		}
		n, err := c.forgetFirst(f, until, limit-forgotten)
		if err == nil {
			err = c.readFirst(f)
		}
		if err != nil {
			return 0, err
		}
		forgotten += n
		if f.isDue(now) {
			at, _ := slices.BinarySearchFunc(due, f, (*finishedRecords).compare)
			due = slices.Insert(due, at, f)
		}
	}
	return forgotten, nil
}

func (f *finishedRecords) compare(g *finishedRecords) int {
	return cmp.Or(cmp.Compare(f.first.Int64, g.first.Int64), cmp.Compare(f.queue, g.queue))
}

func (f *finishedRecords) isDue(now int64) bool { return f.first.Valid && f.first.Int64 <= now }

func (c *changes) readFirst(f *finishedRecords) error {
	f.first = table.Instant{}
	var damage error
	_, err := c.one(firstToForget, func(r *row) { f.first, damage = r.time(), r.damage() }, f.queue)
	if err != nil || damage == nil {
		return err
	}
	err = c.queryText(dropDamagedForgetAt, func(*row) error { return nil }, f.queue)
	if err != nil {
		return err
	}
	_, err = c.one(firstToForget, func(r *row) { f.first = r.time() }, f.queue)
	return err
}

// dropDamagedForgetAt makes records stay whose retention time can't be read.
const dropDamagedForgetAt = `UPDATE jobs SET forget_at = NULL
	WHERE queue = ? AND place >= 8 AND forget_at IS NOT NULL AND typeof(forget_at) <> 'integer'`

// forgetFirst removes the records of a queue whose retention ends first, until a time.
func (c *changes) forgetFirst(f *finishedRecords, until int64, limit int) (int, error) {
	return c.forgetSome(forgetJobs, f, f.queue, until, limit)
}

// forgetTimeless removes excess records of a queue that have no retention time.
func (c *changes) forgetTimeless(f *finishedRecords, limit int) (int, error) {
	return c.forgetSome(forgetTimeless, f, f.queue, limit)
}

func (c *changes) forgetSome(s statement, f *finishedRecords, args ...any) (int, error) {
	n := 0
	var all []*listed
	err := c.query(s, func(r *row) error {
		counted := c.count(f.queue)
		at := table.Place(r.integer())
		l := &listed{seq: r.integer(), edges: r.bool(), tags: r.names()}
		if err := r.damage(); err != nil {
			c.damaged = append(c.damaged, damagedRow{seq: l.seq, err: err})
		}
		if !at.Final() || at >= table.Places {
			at = table.Succeeded // the column is damaged
		}
		counted.places[at]--
		counted.forgotten++
		if l.edges || len(l.tags) > 0 {
			all = append(all, l)
		}
		n++
		return nil
	}, args...)
	for _, l := range all {
		if err == nil {
			err = c.dropLists(l)
		}
	}
	return n, err
}
