package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// Claim implements driver.Driver. Where ctx ends while it is under way, what was
// claimed is handed back. A record that can't be read is given without a job, so
// that it can be parked.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	var claimed []*stored
	var next time.Time
	err := d.writer.write(ctx, &change{
		run: func(c *changes) (err error) {
			claimed, next, err = c.claim(req)
			return err
		},
		undo: func(c *changes) error { return c.unclaim(claimed) },
	})
	if err != nil {
		return driver.Claimed{}, fmt.Errorf("claiming %d records: %w", req.Limit, err)
	}
	return driver.Claimed{Records: d.decodeAll(ctx, claimed), Next: next}, nil
}

// decodeAll decodes records, and logs which can't be read.
func (d *Driver) decodeAll(ctx context.Context, all []*stored) []*driver.Record {
	records := make([]*driver.Record, len(all))
	for i, s := range all {
		var err error
		records[i], err = s.decode()
		if err != nil {
			logging.Error(ctx, message.Fields{
				"message": "a stored job can't be read",
				"path":    d.opts.Path,
				"queue":   d.opts.Queue,
				"job_id":  s.id,
				"error":   err.Error(),
			})
		}
	}
	return records
}

func (c *changes) claim(req driver.ClaimRequest) (claimed []*stored, next time.Time, err error) {
	now := req.Now.UnixNano()
	due, expires, err := c.nextTimes()
	if err != nil {
		return nil, next, err
	}
	if expires.Valid && expires.Int64 < now {
		claimed, err = c.claimExpired(req)
		if err != nil {
			return nil, next, err
		}
	}
	if due.Valid && due.Int64 <= now {
		err = c.admitDue(now)
		if err != nil {
			return nil, next, err
		}
	}
	ready, err := c.claimReady(req)
	if err != nil {
		return nil, next, err
	}
	if due.Valid || expires.Valid {
		due, expires, err = c.nextTimes()
	}
	return append(claimed, ready...), earliest(due, expires), err
}

// nextTimes are when the first of the records is due, and when the first
// expires, that wait for that.
func (c *changes) nextTimes() (due, expires sql.NullInt64, err error) {
	_, err = c.one(nextTimes, []any{&due, &expires}, c.queue)
	return due, expires, err
}

// earliest is when a claim may find more; zero where there is no such time.
func earliest(due, expires sql.NullInt64) time.Time {
	if expires.Valid {
		expires.Int64++ // a job may still start at its deadline
		if !due.Valid || expires.Int64 < due.Int64 {
			due = expires
		}
	}
	if !due.Valid {
		return time.Time{}
	}
	return timeOf(due.Int64)
}

// claimExpired claims, without its scopes, each record that expired before it
// was claimed.
func (c *changes) claimExpired(req driver.ClaimRequest) ([]*stored, error) {
	now := req.Now.UnixNano()
	expired, err := c.records(claimExpired, c.queue, now)
	if err != nil {
		return nil, err
	}
	for _, s := range expired {
		// One before it may have left a scope to it.
		current, err := c.job(findSeq, s.seq)
		if err != nil {
			return nil, err
		}
		wasReady := current.place == ready
		err = c.move(current, running, nil, nil)
		if err != nil {
			return nil, err
		}
		current.leased(req)
		if _, err = c.exec(takeLease, current.seq, current.owner, current.count, now); err != nil {
			return nil, err
		}
		if wasReady {
			err = c.withdraw(current)
			if err != nil {
				return nil, err
			}
		}
		s.job = *current
	}
	return expired, nil
}

// admitDue makes the records ready, or else wait for a scope, whose time has
// come.
func (c *changes) admitDue(now int64) error {
	for _, from := range []place{scheduled, postponed} {
		n, err := c.exec(readyDue, c.queue, now, int(from))
		if err != nil {
			return err
		}
		c.counts[from] -= int(n)
		c.counts[ready] += int(n)
	}
	due, err := c.jobs(findDue, c.queue, now)
	if err != nil {
		return err
	}
	for _, j := range due {
		err = c.admit(j)
		if err != nil {
			return err
		}
	}
	return nil
}

// claimReady claims records that are ready, in the order in which they run.
func (c *changes) claimReady(req driver.ClaimRequest) ([]*stored, error) {
	if req.Limit <= 0 {
		return nil, nil
	}
	found, err := c.records(findReady, c.queue, req.Limit)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	n, err := c.exec(claimReady, c.queue, req.Owner, req.Now.UnixNano(), len(found))
	if err != nil {
		return nil, err
	}
	if int(n) != len(found) {
		return nil, fmt.Errorf("%d records were claimed of %d that are ready", n, len(found))
	}
	c.counts[ready] -= len(found)
	c.counts[running] += len(found)
	for _, s := range found {
		s.leased(req)
		err = c.fulfill(&s.job)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// leased makes the job show the lease that a claim takes.
func (j *job) leased(req driver.ClaimRequest) {
	j.place = running
	j.owner, j.count = req.Owner, j.count+1
	j.leaseTime = nanoseconds(req.Now)
	j.started = j.leaseTime
}

// unclaim hands back what was claimed for a caller that left.
func (c *changes) unclaim(claimed []*stored) error {
	for _, s := range claimed {
		_, err := c.release(driver.HandBack{Lease: driver.Lease{Name: s.name, Owner: s.owner, Count: s.count}})
		if err != nil {
			return err
		}
	}
	return nil
}
