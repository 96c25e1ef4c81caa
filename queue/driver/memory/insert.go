package memory

import (
	"context"
	"fmt"
	"slices"
	"unique"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// newEntry returns the entry of a record.
func newEntry(r *driver.Record) *entry {
	e := &entry{
		Job:        &item{record: *r},
		ID:         r.JobID(),
		Type:       unique.Make(r.Type),
		Priority:   r.Priority,
		WaitUntil:  r.TimeInfo.WaitUntil,
		DispatchBy: r.TimeInfo.DispatchBy,
		Scopes:     schedule.NewScopes(r.RequiredScopes, r.EnqueueScopes),
		Unique:     schedule.NewUnique(r.UniqueKey, r.UniqueUntil),
	}
	if r.Dependency != nil && isPending(r) {
		e.Edges = r.Dependency.Edges
	}
	return e
}

// isPending reports whether an inserted record waits to run.
func isPending(r *driver.Record) bool { return driver.InsertedState(r) == amboy.StatePending }

// presetPlaces are the places of records that are inserted in an unfinished state.
var presetPlaces = map[amboy.JobState]schedule.Place{
	amboy.StateRunning:  schedule.Running,
	amboy.StateRetrying: schedule.Retrying,
}

// Insert implements driver.Driver. If there is no room for a record, it waits, unless the
// context has driver.WithoutWaiting.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	if err := driver.RefuseTransaction(ctx); err != nil {
		return nil, fmt.Errorf("inserting %d records: %w", len(records), err)
	}
	entries := make([]*entry, len(records))
	index := make(map[*entry]int, len(records))
	for i, r := range records {
		entries[i] = newEntry(r)
		index[entries[i]] = i
	}
	errs := make([]error, len(records))
	sorted, cycles := sortByQueue(entries)
	for e, err := range cycles {
		errs[index[e]] = err
	}
	for _, e := range sorted {
		errs[index[e]] = d.insert(ctx, e)
	}
	d.subscribers.Notify(driver.InQueuesOf(records, func(r *driver.Record) string { return r.Group }))
	return errs, nil
}

// sortByQueue is schedule.Sort for entries of several queues. The entries of each queue only
// swap positions with each other.
func sortByQueue(entries []*entry) (sorted []*entry, cycles map[*entry]error) {
	group := func(e *entry) string { return e.Job.record.Group }
	if !slices.ContainsFunc(entries, func(e *entry) bool { return group(e) != group(entries[0]) }) {
		return schedule.Sort(entries)
	}
	parts := map[string][]*entry{}
	for _, e := range entries {
		parts[group(e)] = append(parts[group(e)], e)
	}
	cycles = map[*entry]error{}
	for name, part := range parts {
		var refused map[*entry]error
		parts[name], refused = schedule.Sort(part)
		for e, err := range refused {
			cycles[e] = err
		}
	}
	for _, e := range entries {
		if part := parts[group(e)]; len(part) > 0 {
			sorted = append(sorted, part[0])
			parts[group(e)] = part[1:]
		}
	}
	return sorted, cycles
}

// insert adds an entry when there is room.
func (d *Driver) insert(ctx context.Context, e *entry) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	q := d.queue(e.Job.record.Group)
	for inTurn := false; !d.hasRoom(q, inTurn) && !d.closed && !q.refuses(e); inTurn = true {
		if !driver.MayWait(ctx) {
			d.unlock()
			return driver.ErrFull
		}
		w := q.inserts.Join()
		d.unlock()
		// Room comes when the records inserted before are claimed.
		d.subscribers.Notify(driver.In(q.name))
		if err := d.await(ctx, q, w); err != nil {
			return fmt.Errorf("waiting for room: %w", err)
		}
		d.mu.Lock()
		q.inserts.Reuse(w)
		q.called--
	}
	defer d.unlock()
	defer d.wakeOne(q)
	return d.add(q, e)
}

// refuses reports whether an entry does not wait for room, because it is refused or needs none.
func (q *queue) refuses(e *entry) bool {
	return !isPending(&e.Job.record) || q.refusal(e) != nil || q.schedule.Duplicate(e) != nil
}

// refusal returns why an entry must not be inserted now, apart from the schedule's own
// reasons; nil if it may.
func (q *queue) refusal(e *entry) error {
	r := &e.Job.record
	switch {
	case q.control.Draining:
		return fmt.Errorf("inserting record %q: queue %q: %w", r.Name, q.name, amboy.ErrQueueDraining)
	case q.byName[r.Name] != nil:
		return duplicate(r, q.byName[r.Name])
	default:
		return nil
	}
}

// duplicate returns the error for a record whose name an entry has.
func duplicate(r *driver.Record, taken *entry) error {
	return &amboy.DuplicateJobError{JobID: r.JobID(), Reason: amboy.DuplicateID, Value: r.JobID(), ExistingID: taken.ID}
}

func (d *Driver) add(q *queue, e *entry) error {
	d.touch(q)
	if d.closed {
		return driver.ErrClosed
	}
	if err := q.refusal(e); err != nil {
		return err
	}
	if !isPending(&e.Job.record) {
		return d.addPreset(q, e)
	}
	if err := q.schedule.Add(e, d.opts.Now()); err != nil {
		return err
	}
	d.store(q, e)
	return nil
}

// addPreset adds an entry whose record runs, or has ended an attempt.
func (d *Driver) addPreset(q *queue, e *entry) error {
	r := &e.Job.record
	state := driver.InsertedState(r)
	place, ok := presetPlaces[state]
	if !ok {
		place = schedule.Finished
	}
	if err := q.schedule.AddAt(place, e, state == amboy.StateSucceeded, d.opts.Now()); err != nil {
		return err
	}
	d.store(q, e)
	switch place {
	case schedule.Running:
		r.Scopes = e.Scopes.Names()
		e.Job.lease(d.opts.Elapsed(), r.LeaseTime)
		d.leases.add(e)
	case schedule.Finished:
		r.Scopes = nil
		d.forgetLater(e)
	}
	return nil
}

// store indexes an entry that is in the schedule of a queue.
func (d *Driver) store(q *queue, e *entry) {
	d.inserted++
	e.Job.queue, e.Job.number = q, d.inserted
	e.Job.record.Stamp = int64(d.inserted)
	e.Job.record.Scopes = e.Scopes.AtPut()
	q.byName[e.Job.record.Name] = e
	q.records.Add(e.Job.number, e)
	d.records.Add(e.Job.number, e)
}
