// Package memory is a driver that keeps records in the memory of this process.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/notes"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// Options limit what a Driver keeps of each queue, and set its clocks.
type Options struct {
	// Capacity is the maximum number of records that wait to run. While it is reached,
	// Insert waits. 0 means no limit.
	Capacity int
	// KeepFinished is the maximum number of finished records that are kept; the oldest
	// are removed first. It must be at least 1.
	KeepFinished int
	// Now is the clock, for tests that move it. It must be safe for concurrent use.
	// Default: time.Now.
	Now func() time.Time
	// Elapsed is the clock by which leases are measured, counted from any moment,
	// for tests that move it. It must never jump, and must be safe for concurrent use.
	// Default: the monotonic clock of the process.
	Elapsed func() time.Duration
	// RateElapsed is the clock by which rates are measured, counted from any moment, for
	// tests that move it. It must be safe for concurrent use. Default: Elapsed.
	RateElapsed func() time.Duration
}

// Driver keeps records in memory, for any number of queues in this process. It
// is safe for concurrent use.
type Driver struct {
	opts Options

	mu          sync.Mutex
	closed      bool
	queues      map[string]*queue
	names       btree.Map[string, *queue] // the same queues by name
	prunedSince int                       // the number of queues that were pruned since the map was made
	index       index
	records     arrivals.List[entry] // of all queues
	inserted    uint64               // the last number of a record
	leases      leases
	forgettable heap.Heap[forgettable]
	duties      map[string]heldDuty
	marks       map[markKey]time.Time
	woken       []*wait.Waiter // woken when the lock is released

	notes       notes.Store
	subscribers driver.Subscribers
}

// item is one record. Its fields are replaced, but what they point to never changes, so
// that copies can be handed out.
type item struct {
	record driver.Record
	queue  *queue
	number uint64 // position in the order of all records

	reason string // why it was handed back or parked, while it is postponed or parked
	// While it runs: when the lease ends, by Options.Elapsed, and its length.
	leaseEnds, leaseTime time.Duration

	leaseIndex     int // in Driver.leases
	forgetPosition int // in Driver.forgettable
}

type entry = schedule.Entry[*item]

var _ driver.Driver = (*Driver)(nil)

// New returns an empty driver.
func New(opts Options) (*Driver, error) {
	if opts.Capacity < 0 {
		return nil, fmt.Errorf("invalid memory driver options: Capacity must not be negative (is %d)", opts.Capacity)
	}
	if opts.KeepFinished < 1 {
		return nil, fmt.Errorf("invalid memory driver options: KeepFinished must be at least 1 (is %d)", opts.KeepFinished)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Elapsed == nil {
		start := time.Now()
		opts.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if opts.RateElapsed == nil {
		opts.RateElapsed = opts.Elapsed
	}
	d := &Driver{opts: opts, queues: map[string]*queue{}, duties: map[string]heldDuty{}, marks: map[markKey]time.Time{}}
	d.forgettable = heap.New(
		func(a, b forgettable) bool { return a.at.Before(b.at) },
		func(f forgettable) *int { return &f.entry.Job.forgetPosition })
	d.index = newIndex()
	d.notes.Now = opts.Now
	return d, nil
}

// Features implements driver.Driver. Only the driver can change its records, so it notices
// every change.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: true, Prunes: true, NextAttempts: true, Limits: true}
}

// lockToRead acquires the lock, unless the context has ended.
func (d *Driver) lockToRead(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	return nil
}

// lock acquires the lock for a change, unless the context has ended or the driver is closed.
func (d *Driver) lock(ctx context.Context) error {
	if err := d.lockToRead(ctx); err != nil {
		return err
	}
	if d.closed {
		d.mu.Unlock()
		return driver.ErrClosed
	}
	return nil
}

// unlock updates the index, releases the lock, and wakes the Inserts that have got room.
func (d *Driver) unlock() {
	d.index.arrange(d.opts.Now)
	woken := d.woken
	d.woken = nil
	d.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
}

// each applies a change to each of several items under the lock, and then notifies the
// subscribers.
func each[T any](ctx context.Context, d *Driver, items []T, change func(T) (driver.Change, error)) ([]error, error) {
	if err := d.lock(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(items))
	var all driver.Change
	for i, item := range items {
		var news driver.Change
		news, errs[i] = change(item)
		all = all.With(news)
	}
	d.unlock()
	d.subscribers.Notify(all)
	return errs, nil
}

// one makes a change of one queue under the lock, and then notifies the subscribers.
func (d *Driver) one(ctx context.Context, queue string, change func() error) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	err := change()
	d.unlock()
	if err == nil {
		d.subscribers.Notify(driver.In(queue))
	}
	return err
}

// Subscribe implements driver.Driver.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// Close implements driver.Driver. Records can still be read afterwards. Close of a
// nil driver does nothing.
func (d *Driver) Close(context.Context) error {
	if d == nil {
		return nil // a driver.Driver holds it after a failed New
	}
	d.mu.Lock()
	defer d.unlock()
	d.closed = true
	for _, q := range d.queues {
		d.wakeAll(q)
	}
	return nil
}
