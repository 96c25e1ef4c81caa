package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// workAtOnce is the maximum number of due records that Work reads, and also of expired records
// and of records that await their retry.
const workAtOnce = 10_000

// The kinds of rows of readWork.
const (
	workToClaim = iota + 1
	workToRetry
	workLater
)

// readWork returns a row for each reason why a queue has work, with the number of records that
// were read for it, and one row with the next times.
var readWork = fmt.Sprintf(`SELECT %[1]d, name, paused = 0 AND ready > 0 AND %[4]s, overdue > 0, 0
	FROM queues INDEXED BY queues_work WHERE ready > 0 OR overdue > 0
UNION ALL SELECT %[1]d, name, paused = 0 AND %[4]s, 0, 0 FROM queues WHERE id IN (SELECT queue FROM leftovers)
UNION ALL SELECT %[1]d, name, paused = 0 AND %[4]s, 0, n FROM queues JOIN
	(SELECT queue, count(*) AS n FROM (SELECT queue FROM jobs WHERE due <= ?1 ORDER BY due LIMIT ?2 + 0) GROUP BY queue) AS of ON of.queue = queues.id
UNION ALL SELECT %[1]d, name, 0, 1, n FROM queues JOIN
	(SELECT queue, count(*) AS n FROM (SELECT queue FROM jobs WHERE expires < ?1 ORDER BY expires LIMIT ?2 + 0) GROUP BY queue) AS of ON of.queue = queues.id
UNION ALL SELECT %[2]d, name, 0, 0, n FROM queues JOIN
	(SELECT queue, count(*) AS n FROM (SELECT queue FROM jobs WHERE place = 7 AND place NOT IN (4, 8) ORDER BY seq LIMIT ?2 + 0) GROUP BY queue) AS of ON of.queue = queues.id
UNION ALL SELECT %[3]d, '', (SELECT due FROM jobs WHERE due > ?1 ORDER BY due LIMIT 1), (SELECT expires FROM jobs WHERE expires >= ?1 ORDER BY expires LIMIT 1), 0`,
	workToClaim, workToRetry, workLater, "(max_running = 0 OR running < max_running) AND ifnull(rate, 1) > 0")

// Work implements driver.Driver. If more than 10,000 records are due, the queues of the rest
// are left for another call, which Next requests at once.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	found := map[string]*driver.QueueWork{}
	var due []*driver.QueueWork
	var next time.Time
	timed := 0
	err := d.reads.query(ctx, readWork, func(r *row) error {
		kind, name, ready, expired := r.int(), r.text(), r.time(), r.time()
		damage, read := r.damage(), r.int()
		if kind == workLater {
			next = table.Earliest(ready, expired)
			if damage != nil {
				next = now // a claim parks the record
			}
			return nil
		}
		w := found[name]
		if w == nil {
			w = &driver.QueueWork{Queue: name}
			found[name] = w
		}
		if kind == workToClaim && read > 0 {
			timed += read
			due = append(due, w)
		}
		w.Ready = w.Ready || ready.Int64 > 0
		w.Expired = w.Expired || expired.Int64 > 0
		w.Retrying = w.Retrying || kind == workToRetry
		return nil
	}, now.UnixNano(), d.workAtOnce)
	if err != nil {
		return driver.Work{}, fmt.Errorf("querying which queues have work: %w", err)
	}
	work := driver.Work{Next: next}
	if timed >= d.workAtOnce {
		work.Next = now
		// Until claims have moved these records, which they do even if none of them may run, they
		// hide others. A claim for expired records needs no free worker.
		for _, w := range due {
			w.Expired = true
		}
	}
	for _, w := range found {
		if w.Ready || w.Expired || w.Retrying {
			work.Queues = append(work.Queues, *w)
		}
	}
	slices.SortFunc(work.Queues, func(a, b driver.QueueWork) int { return cmp.Compare(a.Queue, b.Queue) })
	return work, nil
}
