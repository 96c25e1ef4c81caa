// Package memory is a driver that keeps records in this process.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// Options bound what a Driver keeps.
type Options struct {
	// Capacity is the number of records that may wait to run; Insert waits
	// while there are as many. 0 means that there is no limit.
	Capacity int
	// KeepFinished is the number of finished records that are kept; the oldest
	// are forgotten first. It must be at least 1.
	KeepFinished int
}

// Driver keeps records in memory, for any number of queues in this process. It
// is safe for concurrent use.
type Driver struct {
	opts Options

	mu       sync.Mutex
	closed   bool
	schedule schedule.Schedule[*item]
	byName   map[string]*entry
	inserted uint64
	inserts  wait.Line // in Insert, for room
	called   int       // Inserts that were woken, and have not looked yet

	subscribers driver.Subscribers
}

// item is one record. Its fields are replaced, and what they point to is never
// changed, so that copies can be given away.
type item struct {
	record driver.Record
	number uint64
	reason string // why it was handed back, while it waits for that
}

type entry = schedule.Entry[*item]

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Notifier = (*Driver)(nil)
)

// New returns an empty driver.
func New(opts Options) (*Driver, error) {
	if opts.Capacity < 0 {
		return nil, fmt.Errorf("invalid memory driver options: Capacity must not be negative (is %d)", opts.Capacity)
	}
	if opts.KeepFinished < 1 {
		return nil, fmt.Errorf("invalid memory driver options: KeepFinished must be at least 1 (is %d)", opts.KeepFinished)
	}
	d := &Driver{opts: opts, byName: map[string]*entry{}}
	d.schedule.KeepFinished = opts.KeepFinished
	d.schedule.Forget = func(e *entry) { delete(d.byName, e.Job.record.Name) }
	return d, nil
}

func newEntry(r *driver.Record) *entry {
	e := &entry{
		Job:           &item{record: *r},
		ID:            r.JobID(),
		Priority:      r.Priority,
		WaitUntil:     r.TimeInfo.WaitUntil,
		DispatchBy:    r.TimeInfo.DispatchBy,
		Scopes:        r.RequiredScopes,
		EnqueueScopes: r.EnqueueScopes,
	}
	if r.Dependency != nil {
		e.Edges = r.Dependency.Edges
	}
	return e
}

// Insert implements driver.Driver. It waits for room, where there is none for a
// record.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	entries := make([]*entry, len(records))
	index := make(map[*entry]int, len(records))
	for i, r := range records {
		entries[i] = newEntry(r)
		index[entries[i]] = i
	}
	errs := make([]error, len(records))
	sorted, cycles := schedule.Sort(entries)
	for e, err := range cycles {
		errs[index[e]] = err
	}
	for _, e := range sorted {
		errs[index[e]] = d.insert(ctx, e)
	}
	d.subscribers.Notify()
	return errs, nil
}

func (d *Driver) insert(ctx context.Context, e *entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	for inTurn := false; !d.hasRoom(inTurn) && !d.closed && !d.isTaken(e); inTurn = true {
		w := d.inserts.Join()
		d.mu.Unlock()
		// There is room when what was inserted before is claimed.
		d.subscribers.Notify()
		if err := d.await(ctx, w); err != nil {
			return fmt.Errorf("waiting for room: %w", err)
		}
		d.mu.Lock()
		d.inserts.Reuse(w)
		d.called--
	}
	err := d.add(e)
	next := d.nextInsert()
	d.mu.Unlock()
	next.Wake()
	return err
}

func (d *Driver) add(e *entry) error {
	if d.closed {
		return driver.ErrClosed
	}
	if name := e.Job.record.Name; d.byName[name] != nil {
		return amboy.NewDuplicateJobErrorf("record %q is there already", name)
	}
	if err := d.schedule.Add(e, time.Now()); err != nil {
		return err
	}
	d.store(e)
	return nil
}

// store makes an entry that is in the schedule known by its name.
func (d *Driver) store(e *entry) {
	d.inserted++
	e.Job.number = d.inserted
	e.Job.record.Scopes = e.EnqueueScopes
	d.byName[e.Job.record.Name] = e
}

// isTaken tells whether an entry need not wait for room, as it will be refused.
func (d *Driver) isTaken(e *entry) bool {
	_, taken := d.schedule.Get(e.ID)
	return taken || d.byName[e.Job.record.Name] != nil
}

// hasRoom tells whether a record can be added by somebody whose turn it is, or
// who just came. The room for those who were called is theirs.
func (d *Driver) hasRoom(inTurn bool) bool {
	if d.opts.Capacity == 0 {
		return true
	}
	return d.schedule.Pending()+d.called < d.opts.Capacity && (inTurn || d.inserts.Len() == 0)
}

// nextInsert returns the Insert to wake, where there is room.
func (d *Driver) nextInsert() *wait.Waiter {
	if d.inserts.Len() == 0 || !d.hasRoom(true) {
		return nil
	}
	d.called++
	return d.inserts.TakeFirst()
}

// await waits for room. Where ctx ends first it passes a signal on that came at
// the same time.
func (d *Driver) await(ctx context.Context, w *wait.Waiter) error {
	err := w.Wait(ctx)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	left := d.inserts.Leave(w)
	d.mu.Unlock()
	if left {
		return err
	}
	w.Drain()
	d.mu.Lock()
	d.called--
	next := d.nextInsert()
	d.mu.Unlock()
	next.Wake()
	return err
}

// Claim implements driver.Driver.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return driver.Claimed{}, err
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return driver.Claimed{}, driver.ErrClosed
	}
	var claimed driver.Claimed
	for _, e := range d.schedule.Advance(req.Now) {
		claimed.Records = append(claimed.Records, claim(e, req, e.EnqueueScopes))
	}
	for range req.Limit {
		e := d.schedule.Next()
		if e == nil {
			break
		}
		claimed.Records = append(claimed.Records, claim(e, req, e.Scopes))
	}
	claimed.Next, _ = d.schedule.NextTime()
	next := d.nextInsert()
	d.mu.Unlock()
	next.Wake()
	return claimed, nil
}

// claim gives the lease of an entry, which holds those scopes now, to the owner,
// and returns a copy of its record.
func claim(e *entry, req driver.ClaimRequest, scopes []string) *driver.Record {
	r := &e.Job.record
	r.Status.Owner = req.Owner
	r.Status.InProgress = true
	r.Status.ModificationTime = req.Now
	r.Status.ModificationCount++
	r.TimeInfo.Start = req.Now
	r.Scopes = scopes
	if failed := e.Failed(); len(failed) > 0 {
		dependency := *r.Dependency
		dependency.Failed = failed
		r.Dependency = &dependency
	}
	given := *r
	return &given
}

// leased returns the entry of a running record whose lease is the given one.
func (d *Driver) leased(l driver.Lease) (*entry, error) {
	e, err := d.shown(l)
	if err == nil && e.Place() != schedule.Running {
		return nil, fmt.Errorf("record %q does not run: %w", l.Name, driver.ErrLeaseLost)
	}
	return e, err
}

// shown returns the entry of a record that has not ended and shows that lease,
// or the absence of one.
func (d *Driver) shown(l driver.Lease) (*entry, error) {
	e, ok := d.byName[l.Name]
	if !ok || e.Job.record.Status.Completed || driver.LeaseOf(&e.Job.record) != l {
		return nil, fmt.Errorf("record %q: %w", l.Name, driver.ErrLeaseLost)
	}
	return e, nil
}

// Extend implements driver.Driver.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, now time.Time) (lost []driver.Lease, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, driver.ErrClosed
	}
	for _, l := range leases {
		e, err := d.leased(l)
		if err != nil {
			lost = append(lost, l)
			continue
		}
		e.Job.record.Status.ModificationTime = now
	}
	return lost, nil
}

// Complete implements driver.Driver. A record that never ran can be completed
// too, under the lease that it shows: then it never will.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	return each(ctx, d, completions, d.complete)
}

func (d *Driver) complete(c driver.Completion) error {
	e, err := d.shown(c.Lease)
	if err != nil {
		return err
	}
	e.Job.record = *c.Record
	e.Job.record.Name = c.Lease.Name
	if c.Record.RetryInfo.ShouldRetry() {
		e.Job.record.Scopes = e.EnqueueScopes
		d.schedule.Retry(e)
		return nil
	}
	d.finish(e)
	return nil
}

// finish ends the job of an entry whose record says how it ended.
func (d *Driver) finish(e *entry) {
	now := time.Now()
	r := &e.Job.record
	r.Scopes = nil
	d.schedule.Finish(e, driver.StateOf(r, now) == amboy.StateSucceeded, now)
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	return each(ctx, d, handBacks, d.release)
}

func (d *Driver) release(h driver.HandBack) error {
	e, err := d.leased(h.Lease)
	if err != nil {
		return err
	}
	r := &e.Job.record
	r.Status.Owner = ""
	r.Status.InProgress = false
	r.TimeInfo.Start = time.Time{}
	r.Scopes = e.EnqueueScopes
	e.Job.reason = h.Reason
	if h.Park {
		d.schedule.Park(e)
		return nil
	}
	d.schedule.Release(e, h.NotBefore, time.Now())
	return nil
}

// each applies a change to each of several items under the lock, and tells the
// subscribers.
func each[T any](ctx context.Context, d *Driver, items []T, change func(T) error) ([]error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, driver.ErrClosed
	}
	errs := make([]error, len(items))
	for i, item := range items {
		errs[i] = change(item)
	}
	next := d.nextInsert()
	d.mu.Unlock()
	next.Wake()
	d.subscribers.Notify()
	return errs, nil
}

// awaitingRetry returns the entry of a record that awaits its retry.
func (d *Driver) awaitingRetry(r *driver.Record) (*entry, error) {
	e, ok := d.byName[r.Name]
	if !ok || e.Place() != schedule.Retrying {
		return nil, fmt.Errorf("record %q does not await a retry: %w", r.Name, driver.ErrLeaseLost)
	}
	return e, nil
}

// Retry implements driver.Driver. The next attempt needs no room: it takes the
// place of the one before.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	errs, err := each(ctx, d, []*driver.Record{ended}, func(ended *driver.Record) error {
		e, err := d.awaitingRetry(ended)
		if err != nil {
			return err
		}
		if _, taken := d.byName[next.Name]; taken {
			return amboy.NewDuplicateJobErrorf("record %q is there already", next.Name)
		}
		replacement := newEntry(next)
		if err := d.schedule.Replace(e, replacement, time.Now()); err != nil {
			return err
		}
		e.Job.record = *ended
		e.Job.record.Scopes = nil
		d.store(replacement)
		return nil
	})
	if err != nil {
		return err
	}
	return errs[0]
}

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	errs, err := each(ctx, d, []*driver.Record{ended}, func(ended *driver.Record) error {
		e, err := d.awaitingRetry(ended)
		if err != nil {
			return err
		}
		e.Job.record = *ended
		d.finish(e)
		return nil
	})
	if err != nil {
		return err
	}
	return errs[0]
}

// Save implements driver.Driver.
func (d *Driver) Save(ctx context.Context, r *driver.Record) error {
	errs, err := each(ctx, d, []*driver.Record{r}, func(r *driver.Record) error {
		e, ok := d.byName[r.Name]
		if !ok {
			return amboy.NewJobNotFoundErrorf("there is no record %q", r.Name)
		}
		driver.CopyContent(&e.Job.record, r)
		return nil
	})
	if err != nil {
		return err
	}
	return errs[0]
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id string) (*driver.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("there is no job %q", id)
	}
	return described(e), nil
}

// described returns a copy of an entry's record whose status tells where the
// entry stands.
func described(e *entry) *driver.Record {
	r := e.Job.record
	place := e.Place()
	schedule.Describe(&r.Status, place, e.Block())
	if reason := e.Job.reason; reason != "" && (place == schedule.Postponed || place == schedule.Parked) {
		r.Status.Reason = reason
	}
	return &r
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, id string) ([]*driver.Record, error) {
	latest, err := d.Get(ctx, id)
	if amboy.IsJobNotFoundError(err) || (err == nil && !latest.RetryInfo.Retryable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var attempts []*driver.Record
	retry := latest.RetryInfo
	for retry.CurrentAttempt = 0; retry.CurrentAttempt <= latest.RetryInfo.CurrentAttempt; retry.CurrentAttempt++ {
		if e, ok := d.byName[driver.RecordName(id, retry)]; ok {
			attempts = append(attempts, described(e))
		}
	}
	return attempts, nil
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, states ...amboy.JobState) ([]*driver.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	entries := slices.SortedFunc(maps.Values(d.byName), func(a, b *entry) int {
		return cmp.Compare(a.Job.number, b.Job.number)
	})
	records := make([]*driver.Record, len(entries))
	for i, e := range entries {
		records[i] = described(e)
	}
	d.mu.Unlock()

	if len(states) == 0 {
		return records, nil
	}
	now := time.Now()
	return slices.DeleteFunc(records, func(r *driver.Record) bool {
		return !slices.Contains(states, driver.StateOf(r, now))
	}), nil
}

// Stats implements driver.Driver.
func (d *Driver) Stats(ctx context.Context) (amboy.QueueStats, error) {
	if err := ctx.Err(); err != nil {
		return amboy.QueueStats{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schedule.Stats(), nil
}

// RecoverStale implements driver.Driver.
func (d *Driver) RecoverStale(ctx context.Context, before time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d.mu.Lock()
	var stale []driver.HandBack
	for _, e := range d.byName {
		if e.Place() == schedule.Running && e.Job.record.Status.ModificationTime.Before(before) {
			stale = append(stale, driver.HandBack{Lease: driver.LeaseOf(&e.Job.record)})
		}
	}
	d.mu.Unlock()
	if len(stale) == 0 {
		return 0, nil
	}
	errs, err := d.Release(ctx, stale)
	recovered := 0
	for _, lost := range errs {
		if lost == nil {
			recovered++
		}
	}
	return recovered, err
}

// Subscribe implements driver.Notifier.
func (d *Driver) Subscribe(notify func()) (cancel func()) { return d.subscribers.Subscribe(notify) }

// Close makes further changes fail. What is stored can still be read.
func (d *Driver) Close(context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.called += d.inserts.Len()
	woken := d.inserts.TakeAll()
	d.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
	return nil
}
