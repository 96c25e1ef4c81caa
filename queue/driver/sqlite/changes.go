package sqlite

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// changes is a transaction. Its methods ignore contexts: it takes milliseconds, and one of
// several callers must not end it for the others. While a query calls its function, no other
// statement may run.
type changes struct {
	connection
	// keys are the keys of queues that were known before the transaction.
	keys map[string]int64
	// found are the keys of queues that the transaction found or added.
	found map[string]int64
	// keysEnded is true if the transaction dropped queues, whose keys may be given to others.
	keysEnded bool
	// controls are the settings of queues that the transaction has read.
	controls map[int64]driver.Control
	// counts are the changes of counts that are not written yet.
	counts map[int64]*counts
	// damaged are the rows that could not be read.
	damaged []damagedRow
	// freed are the scopes of a queue that are to be promised, and promoting is true while
	// that is done.
	freed     []string
	promoting bool
	// examined is the number of groups that were examined, and edgesEnded the number of edges
	// that were ended.
	examined, edgesEnded int
}

func newChanges(on connection, keys map[string]int64) *changes {
	return &changes{connection: on, keys: keys, found: map[string]int64{}, controls: map[int64]driver.Control{}, counts: map[int64]*counts{}}
}

// counts is the change of the numbers of records of a queue.
type counts struct {
	places  [table.Places]int
	overdue int
	ended   int
	// forgotten is the number of records that were removed because their retention was over,
	// which does not count as a use of the queue.
	forgotten int
}

// finished is the change of the number of finished records.
func (n *counts) finished() int {
	return n.places[table.Succeeded] + n.places[table.Failed] + n.places[table.Canceled] + n.places[table.Expired]
}

// used returns the time of the change; not valid if records were only forgotten.
func (n *counts) used(now time.Time) table.Instant {
	if [table.Succeeded]int(n.places[:table.Succeeded]) == [table.Succeeded]int{} && n.ended == 0 && n.finished() == -n.forgotten {
		return table.Instant{}
	}
	return table.InstantOf(now)
}

func (c *changes) count(queue int64) *counts {
	n := c.counts[queue]
	if n == nil {
		n = &counts{}
		c.counts[queue] = n
	}
	return n
}

// hidesWork reports whether a queue may have work that its stored counts do not show.
func (c *changes) hidesWork() bool {
	for _, n := range c.counts {
		if n.places[table.Ready] > 0 || n.overdue != 0 {
			return true
		}
	}
	return false
}

// flush writes the counts and resets them.
func (c *changes) flush() error {
	now := time.Now()
	for queue, n := range c.counts {
		if *n == (counts{}) {
			continue
		}
		p := &n.places
		_, err := c.exec(addCounts, p[table.Waiting], p[table.Scheduled], p[table.Postponed], p[table.ScopeBlocked], p[table.Ready], p[table.Parked], p[table.Running], p[table.Retrying],
			n.finished(), n.overdue, n.ended, n.used(now), queue)
		if err != nil {
			return fmt.Errorf("writing the counts of a queue: %w", err)
		}
		*n = counts{}
	}
	return nil
}

// queue returns the key of a queue; 0 if the queue does not exist.
func (c *changes) queue(name string) (key int64, err error) {
	if known, ok := c.keys[name]; ok {
		return known, nil
	}
	if known, ok := c.found[name]; ok {
		return known, nil
	}
	there, err := c.one(findQueue, func(r *row) { key = r.integer() }, name)
	if there {
		c.found[name] = key
	}
	return key, err
}

// ensureQueue returns the key of a queue, which it adds if it does not exist.
func (c *changes) ensureQueue(name string) (key int64, err error) {
	key, err = c.queue(name)
	if err != nil || key != 0 {
		return key, err
	}
	_, err = c.one(insertQueue, func(r *row) { key = r.integer() }, name, time.Now().UnixNano())
	if err != nil {
		return 0, fmt.Errorf("adding queue %q: %w", name, err)
	}
	c.found[name] = key
	return key, nil
}

// one runs a statement that returns at most one row, and reports whether it returned one.
func (c *changes) one(s statement, scan func(*row), args ...any) (found bool, err error) {
	err = c.query(s, func(r *row) error {
		found = true
		scan(r)
		return nil
	}, args...)
	return found, err
}

// job finds a row; nil if it does not exist.
func (c *changes) job(s statement, args ...any) (*job, error) {
	j := &job{}
	found, err := c.one(s, j.read, args...)
	if !found || err != nil {
		return nil, err
	}
	return j, nil
}

// named finds a record by its name; nil if it does not exist.
func (c *changes) named(queue int64, name string) (*job, error) {
	if queue == 0 {
		return nil, nil
	}
	return c.job(findByName, queue, name)
}

func (c *changes) jobs(s statement, args ...any) (jobs []*job, err error) {
	err = c.query(s, func(r *row) error {
		j := &job{}
		j.read(r)
		jobs = append(jobs, j)
		return nil
	}, args...)
	return jobs, err
}

func (c *changes) records(s statement, args ...any) (records []*stored, err error) {
	err = c.query(s, func(r *row) error {
		record := &stored{}
		record.read(r)
		records = append(records, record)
		return nil
	}, args...)
	return records, err
}

// latest finds the latest attempt of a job; nil if there is none.
func (c *changes) latest(queue int64, id string) (*job, error) {
	if queue == 0 {
		return nil, nil
	}
	return c.job(findLatest, queue, id)
}
