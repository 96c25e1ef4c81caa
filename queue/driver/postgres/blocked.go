package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// A transaction of someone else can hold the lock of a row or of a queue for long, for instance one
// that puts a job which depends on a running one (see WithTx). Renewals and ends of many jobs share a
// statement, so all of them would wait for it, until the leases are over. The driver bounds these
// waits, and leaves out what is in the way.

// patience is how long a transaction waits for each lock.
type patience string

const (
	endless patience = ""
	// patient is for the first try with many records, and brief for the search for those that are
	// in the way: transactions of the driver itself are shorter.
	patient patience = "1s"
	brief   patience = "50ms"
)

// patienceOf returns the patience of a call: it must leave time for the search.
func patienceOf(ctx context.Context) patience {
	const search = 3 * time.Second
	if end, limited := ctx.Deadline(); limited && time.Until(end) < search {
		return brief
	}
	return patient
}

// settings returns a statement that applies the patience and planSettings to the transaction.
func (p patience) settings() string {
	if p == endless {
		return planSettings
	}
	return planSettings + ", set_config('lock_timeout', '" + string(p) + "', true)"
}

// aroundBlocked changes items together. If rows of some of them are locked for longer than a
// patience, it changes the others, and returns those.
func aroundBlocked(items []int, p patience, change func([]int, patience) error) (blocked []int, err error) {
	err = change(items, p)
	switch {
	case codeOf(err) != codeLockNotAvailable:
		return nil, err
	case len(items) == 1:
		return items, nil
	}
	for _, half := range [][]int{items[:len(items)/2], items[len(items)/2:]} {
		left, err := aroundBlocked(half, brief, change)
		if err != nil {
			return nil, err
		}
		blocked = append(blocked, left...)
	}
	return blocked, nil
}

const (
	// lockedFor is how long a queue counts as locked after someone waited for its lock in vain. Who
	// needs it then is brief.
	lockedFor = 10 * time.Second
	// lockedPause is the pause before a claim that left out a locked queue is repeated.
	lockedPause = 250 * time.Millisecond
)

// unlessLocked makes a change under the lock of a queue, unless a transaction of someone else holds
// that for long.
func (d *Driver) unlessLocked(ctx context.Context, queue int32, run func(*changes) error) (locked bool, err error) {
	p := patienceOf(ctx)
	if since, found := d.locked.Load(queue); found && time.Since(since.(time.Time)) < lockedFor {
		p = brief
	}
	err = d.transactWithin(ctx, p, queue, run)
	if codeOf(err) == codeLockNotAvailable {
		d.locked.Store(queue, time.Now())
		return true, nil
	}
	if err == nil {
		d.locked.Delete(queue)
	}
	return false, err
}

func blockedError(name string) error { return fmt.Errorf("record %q: %w", name, driver.ErrBlocked) }
