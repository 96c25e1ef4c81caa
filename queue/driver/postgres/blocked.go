package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// A transaction of a caller or of another program can hold the lock of a row or of a queue for long, for
// instance if it puts a job that depends on a running job (see WithTx). Renewals and ends of
// many jobs share a statement, so all of them would wait for that lock, until the leases are over. The
// driver bounds these waits, and leaves out the rows and queues that are locked.

// patience is how long a transaction waits for each lock.
type patience string

const (
	endless patience = ""
	// patient is for the first try (tests may set another one), and brief for later ones: transactions of the driver
	// itself are shorter.
	patient patience = "1s"
	brief   patience = "50ms"
)

// sortByLease sorts items by their leases. Calls that change the same running jobs lock their rows in this
// order: in different orders, two of them would wait for each other until their patience ends.
func sortByLease(items []int, leaseOf func(item int) driver.Lease) {
	slices.SortStableFunc(items, func(a, b int) int {
		l, m := leaseOf(a), leaseOf(b)
		return cmp.Or(strings.Compare(l.Queue, m.Queue), strings.Compare(l.Name, m.Name))
	})
}

// patienceOf returns the patience of a call: it must leave time for what follows a wait that timed out.
func (d *Driver) patienceOf(ctx context.Context) patience {
	const rest = 2 * time.Second
	if end, limited := ctx.Deadline(); limited && time.Until(end) < rest+time.Second {
		return brief
	}
	return d.patient
}

// isWaitOver reports whether a statement waited for too long: for the driver, or for the server, whose
// statement timeout may be shorter.
func isWaitOver(err error) bool {
	code := pgconnect.CodeOf(err)
	return code == pgconnect.CodeLockNotAvailable || code == pgconnect.CodeCanceled
}

// settings returns a statement that applies the patience and planSettings to the transaction.
func (p patience) settings() string {
	if p == endless {
		return planSettings
	}
	return planSettings + ", set_config('lock_timeout', '" + string(p) + "', true)"
}

// leasesAround is changes of records that have leases, made together.
type leasesAround struct {
	d       *Driver
	leaseOf func(item int) driver.Lease
	// locked is the statement that finds the records whose rows are locked.
	locked statement
	change func(items []int, p patience) error
}

// do changes items. If rows of some of them, or something else, stay locked, it changes the others,
// and returns those. It changes what it can early, but does not give up a row early: another call of
// this driver may hold it while that waits for a row that is blocked, which can take its patience.
func (l *leasesAround) do(ctx context.Context, items []int) (blocked []int, err error) {
	sortByLease(items, l.leaseOf)
	all, p, search := items, l.d.patienceOf(ctx), searchTime(ctx)
	if l.wereBlocked(items) {
		p, search = brief, 0
	}
	err = l.change(items, p)
	if !isWaitOver(err) {
		l.note(all, nil)
		return nil, err
	}
	for end := time.Now().Add(search); ; {
		blocked, err = l.find(ctx, items)
		if err != nil {
			return nil, err
		}
		free := slices.DeleteFunc(slices.Clone(items), func(item int) bool { return slices.Contains(blocked, item) })
		if len(free) > 0 {
			err = l.change(free, brief)
			if err == nil {
				items = blocked
			} else if !isWaitOver(err) {
				return nil, err
			}
		}
		if len(items) == 0 || time.Now().After(end) {
			l.note(all, items)
			return items, nil
		}
		err = sleep.For(ctx, 20*time.Millisecond+time.Duration(rand.Int64N(int64(30*time.Millisecond))))
		if err != nil {
			return nil, err
		}
	}
}

// searchTime returns how long a call waits for rows after its patience has ended.
func searchTime(ctx context.Context) time.Duration {
	const longest = 1500 * time.Millisecond // more than a patience
	if end, limited := ctx.Deadline(); limited {
		return min(longest, time.Until(end)/2)
	}
	return longest
}

// find returns the items whose rows are locked now.
func (l *leasesAround) find(ctx context.Context, items []int) (locked []int, err error) {
	var c leaseColumns
	for _, item := range items {
		if _, err = c.add(ctx, l.d, l.d.reader(), l.leaseOf(item), item); err != nil {
			return nil, l.d.failed(ctx, err, false)
		}
	}
	err = l.d.readPlanned(ctx, l.locked, func(r *row) error {
		locked = append(locked, c.index[r.integer()-1])
		return nil
	}, c.queue, c.id, c.name, c.owner, c.count, c.stamp)
	return locked, err
}

// blockedLeases is the leases whose last change was blocked: the next call does not wait for them.
type blockedLeases struct {
	mu  sync.Mutex
	all map[driver.Lease]struct{}
}

// wereBlocked reports whether the last change of each item was blocked.
func (l *leasesAround) wereBlocked(items []int) bool {
	b := &l.d.blocked
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return false
	}
	for _, item := range items {
		if _, found := b.all[l.leaseOf(item)]; !found {
			return false
		}
	}
	return true
}

// note notes which items were blocked.
func (l *leasesAround) note(items, blocked []int) {
	b := &l.d.blocked
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) > 0 {
		for _, item := range items {
			delete(b.all, l.leaseOf(item))
		}
	}
	for _, item := range blocked {
		if b.all == nil {
			b.all = map[driver.Lease]struct{}{}
		}
		b.all[l.leaseOf(item)] = struct{}{}
	}
}

// lockedPause is the pause before a claim that left out a locked queue is repeated, and the longest wait
// for a promotion.
const lockedPause = 250 * time.Millisecond

// lockedQueue is a queue for whose lock, or for a row under it, the wait of a call timed out.
type lockedQueue struct {
	since time.Time
	// holders are the transactions that held the lock then.
	holders []string
	// tries is the number of waits that timed out in succession.
	tries int
}

// unlessLocked makes a change that takes the lock of a queue, unless that is held for long. After a
// wait that timed out, the queue is left out, without a wait, while a transaction that held the lock
// then still holds it. It waits for other transactions, longer each time: locks are given in the order
// of the requests, so a call that left early would never get the lock of a busy queue.
func (d *Driver) unlessLocked(ctx context.Context, queue int32, change func(p patience) error) (locked bool, err error) {
	last, locked, err := d.lastWait(ctx, queue)
	if locked || err != nil {
		return locked, err
	}
	err = change(d.patienceAfter(ctx, last.tries))
	if !isWaitOver(err) {
		if last.tries > 0 {
			d.locked.Delete(queue)
		}
		return false, err
	}
	holders, err := d.holdersOf(ctx, queue)
	d.locked.Store(queue, lockedQueue{since: time.Now(), holders: holders, tries: last.tries + 1})
	return true, err
}

// patienceAfter returns the patience after a number of waits that timed out.
func (d *Driver) patienceAfter(ctx context.Context, tries int) patience {
	p := d.patienceOf(ctx)
	if p == brief || tries == 0 {
		return p
	}
	wait := time.Second << min(tries, 4)
	if end, limited := ctx.Deadline(); limited {
		wait = max(time.Second, min(wait, time.Until(end)-time.Second))
	}
	return patience(fmt.Sprintf("%dms", wait.Milliseconds()))
}

// transactUnlessLocked is unlessLocked for a transaction.
func (d *Driver) transactUnlessLocked(ctx context.Context, queue int32, run func(*changes) error) (locked bool, err error) {
	return d.unlessLocked(ctx, queue, func(p patience) error { return d.transactWithin(ctx, p, queue, run) })
}

// lastWait returns the last wait that timed out, if there was one. locked reports whether another
// would time out too.
func (d *Driver) lastWait(ctx context.Context, queue int32) (last lockedQueue, locked bool, err error) {
	noted, found := d.locked.Load(queue)
	if !found {
		return last, false, nil
	}
	last = noted.(lockedQueue)
	holders, err := d.holdersOf(ctx, queue)
	isHolder := func(holder string) bool { return slices.Contains(last.holders, holder) }
	locked = slices.ContainsFunc(holders, isHolder) || len(last.holders) == 0 && time.Since(last.since) < time.Second
	return last, locked, err
}

// holdersOf returns the transactions that hold the lock of a queue.
func (d *Driver) holdersOf(ctx context.Context, queue int32) (holders []string, err error) {
	key := uint64(d.lockKey(lockOfQueue, queue)) //nolint:gosec // Its halves are numbers without a sign.
	err = d.reader().query(ctx, d.texts[lockHolders], func(r *row) error {
		holders = append(holders, r.text())
		return nil
	}, int64(key>>32), int64(key&(1<<32-1)))
	if err != nil {
		return nil, fmt.Errorf("reading which transactions hold the lock of a queue: %w", d.failed(ctx, err, false))
	}
	return holders, nil
}

func blockedError(name string) error { return fmt.Errorf("record %q: %w", name, driver.ErrBlocked) }
