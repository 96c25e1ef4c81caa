package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// entry is a record that is to be inserted, for the sorting of records that
// depend on each other.
type entry = schedule.Entry[*newRecord]

type newRecord struct {
	*stored
	index int // in the Insert
}

// Insert implements driver.Driver. It writes the records in one transaction.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	entries := make([]*entry, len(records))
	for i, r := range records {
		s, err := newStored(r)
		if err != nil {
			return nil, err
		}
		entries[i] = &entry{Job: &newRecord{stored: s, index: i}, ID: s.id, Edges: edgesOf(r)}
	}
	sorted, cycles := schedule.Sort(entries)
	var errs []error
	err := d.writer.write(ctx, &change{notifies: true, run: func(c *changes) error {
		errs = make([]error, len(records))
		for e, cycle := range cycles {
			errs[e.Job.index] = cycle
		}
		for _, e := range sorted {
			refusal, err := c.insert(e.Job.stored, e.Edges)
			if err != nil {
				return err
			}
			errs[e.Job.index] = refusal
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("inserting %d records: %w", len(records), err)
	}
	return errs, nil
}

func edgesOf(r *driver.Record) []string {
	if r.Dependency == nil {
		return nil
	}
	return r.Dependency.Edges
}

// insert adds a record. Where it is refused nothing is changed.
func (c *changes) insert(s *stored, edges []string) (refusal, err error) {
	now := time.Now().UnixNano()
	s.open, s.failed = 0, nil // a former try may have set them
	if len(s.scopes) == 0 && len(edges) == 0 {
		return c.insertAt(s, firstPlace(&s.job, now))
	}
	refusal, err = c.admissible(s, edges)
	if refusal != nil || err != nil {
		return refusal, err
	}
	err = c.take(s.id, s.enqueueScopes)
	if err != nil {
		return nil, err
	}
	err = c.link(&s.job, edges)
	if err != nil {
		return nil, err
	}
	refusal, err = c.insertAt(s, waiting)
	if refusal != nil || err != nil || s.open > 0 {
		return refusal, err
	}
	j, err := c.job(findByName, c.queue, s.name)
	if err != nil {
		return nil, err
	}
	return nil, c.wait(j, now)
}

// firstPlace is where a job goes that waits for nothing but its time.
func firstPlace(j *job, now int64) place {
	if j.waitUntil.Valid && j.waitUntil.Int64 > now {
		return scheduled
	}
	return ready
}

// insertAt adds the row. The refusal says that the ID is taken.
func (c *changes) insertAt(s *stored, p place) (refusal, err error) {
	var due any
	if p == scheduled {
		due = s.waitUntil
	}
	added, err := c.exec(insertJob, c.queue, s.name, s.id, int(p), s.priority, s.waitUntil, s.dispatchBy, due,
		s.owner, s.count, s.leaseTime, s.scopes, s.enqueueScopes, s.edges, s.open, s.dependents, s.failed, s.record)
	if err != nil {
		return nil, err
	}
	if added == 0 {
		return duplicate(&s.job), nil
	}
	s.place = p
	c.counts[p]++
	return nil, nil
}

func duplicate(j *job) error {
	return amboy.NewDuplicateJobErrorf("job %q, or record %q, is in the queue already", j.id, j.name)
}

// admissible says why a record can't be added.
func (c *changes) admissible(s *stored, edges []string) (refusal, err error) {
	for _, find := range []struct {
		statement statement
		value     string
	}{{findByName, s.name}, {findLatest, s.id}} {
		var taken *job
		taken, err = c.job(find.statement, c.queue, find.value)
		if err != nil {
			return nil, err
		}
		if taken != nil {
			return duplicate(&s.job), nil
		}
	}
	refusal, err = c.checkEdges(s.id, edges)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return c.checkFree(s.id, s.enqueueScopes)
}
