package mongodb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
)

// Leases begin and end by the clock of the server: updates refer to it as $$NOW, and a
// recovery first asks for it. So a wrong clock of a process makes no lease shorter or
// longer. If the clock of the server is set back, or if another server with a slower
// clock becomes primary, leases renewed before seem to last too long. Such a lease has
// ended when this driver has seen it unrenewed for its whole length.

const (
	// recoverBatch is the number of leases that are recovered with one command, and of
	// leases and waits that are checked because they seem too long.
	recoverBatch = 1000
	// maxExcess is how much longer than the longest known lease a lease may seem to last.
	maxExcess = 30 * time.Second
	// clockSlack is how far in the future a wait may seem to begin.
	clockSlack = 5 * time.Second
)

// lease identifies one period of a lease, from when it was taken or renewed.
type lease struct {
	id           string
	count        int
	began, until int64 // in milliseconds
}

func (doc *document) seenLease() lease {
	return lease{doc.id, doc.Status.ModificationCount, doc.Status.ModificationTime.UnixMilli(), doc.LeaseUntil.UnixMilli()}
}

// RecoverStale implements driver.Driver.
func (d *Driver) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx = plain(ctx)
	kept := make(keptLeases, len(keep))
	for _, l := range keep {
		k := key{l.Queue, l.Name}
		kept[k] = append(kept[k], l)
	}
	recovered, limit := 0, recoverBatch
	for {
		n, more, err := d.recoverSome(ctx, kept, &limit)
		recovered += n
		if err != nil {
			return recovered, fmt.Errorf("recovering stale leases, after %d: %w", recovered, err)
		}
		if !more {
			return recovered, nil
		}
	}
}

// keptLeases are the leases that a recovery leaves alone.
type keptLeases map[key][]driver.Lease

func (k keptLeases) has(doc *document) bool {
	return slices.ContainsFunc(k[key{doc.Group, doc.Name}], doc.shows)
}

// foundTimes holds the documents that a recovery found.
type foundTimes struct {
	stale   []*document // whose leases have ended or may have ended
	tooLong []*document // whose leases seem to last too long
	waiting []*document // whose waits seem to begin in the future
}

// recoverSome recovers leases that have ended and shortens waits. It reports whether
// there may be more of either. It reads up to limit of each, and raises the limit if what is left
// alone may be in the way of others.
func (d *Driver) recoverSome(ctx context.Context, keep keptLeases, limit *int) (recovered int, more bool, err error) {
	began := d.elapsed()
	now, err := d.serverTime(ctx)
	if err != nil {
		return 0, false, err
	}
	found, err := d.findWrongTimes(ctx, now, *limit)
	if err != nil {
		return 0, false, err
	}
	var changes []*change
	avoided, _ := d.avoided.at(d.elapsed())
	skipped := false
	skip := func(doc *document) bool {
		if !keep.has(doc) && !avoided[key{doc.Group, doc.Name}] {
			return false
		}
		skipped = true
		return true
	}
	for _, doc := range found.stale {
		if doc.leaseEnds(d.opts.LockTimeout).Before(now) && !skip(doc) {
			changes = append(changes, d.recovery(doc, now))
		}
	}
	for _, doc := range d.endedUnrenewed(began, found.tooLong) {
		if !skip(doc) {
			changes = append(changes, d.recovery(doc, now))
		}
	}
	for _, doc := range found.waiting {
		changes = append(changes, shortening(doc, now))
	}
	full := max(len(found.stale), len(found.tooLong), len(found.waiting)) >= *limit
	raised := max(*limit, recoverBatch+len(keep)+len(avoided))
	again := full && skipped && raised > *limit
	if again {
		*limit = raised
	}
	if len(changes) == 0 {
		return 0, again, nil
	}
	err = d.apply(ctx, changes)
	d.avoid(ctx, changes)
	landed := 0
	for _, c := range changes {
		if !c.landed() {
			continue
		}
		landed++
		if c.before.runs() {
			recovered++
			if c.after.isLegacy() {
				d.sweeper.sweepLegacy()
			}
		}
	}
	return recovered, again || full && landed > 0, err
}

// findWrongTimes reads, with one command, up to limit documents of each kind that may have to be
// changed.
func (d *Driver) findWrongTimes(ctx context.Context, now time.Time, limit int) (*foundTimes, error) {
	found := &foundTimes{}
	var pipeline bson.A
	for i, wrong := range d.wrongTimes(now) {
		branch := bson.A{match(wrong.filter), field("$limit", limit), field("$project", withoutJob), project(wrong.name, "$$ROOT")}
		if i == 0 {
			pipeline = branch
		} else {
			pipeline = append(pipeline, d.union(branch...))
		}
	}
	return found, d.pipe(ctx, pipeline, found.add)
}

// wrongTimes are the filters for documents that may have to be changed, by what a foundTimes calls
// them.
func (d *Driver) wrongTimes(now time.Time) []wrongTime {
	return []wrongTime{
		{"stale", d.isRunning(field("lease_until", field("$lt", now)))},
		{"stale", d.legacyStale(now)},
		{"too_long", d.tooLong(now)},
		{"waiting", waitsFromFuture(now)},
	}
}

type wrongTime struct {
	name   string
	filter bson.D
}

func (w *foundTimes) add(raw bson.Raw) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	doc := decode(elements[0].Value().Document())
	switch elements[0].Key() {
	case "stale":
		w.stale = append(w.stale, doc)
	case "too_long":
		w.tooLong = append(w.tooLong, doc)
	case "waiting":
		w.waiting = append(w.waiting, doc)
	}
}

// isRunning returns a filter for the running documents of all queues that satisfy a condition
// on the end of their leases.
func (d *Driver) isRunning(until bson.D) bson.D {
	filter := append(slices.Clip(running), until...)
	if d.opts.Grouped {
		return append(slices.Clip(anyQueue), filter...) // the index begins with the queue
	}
	return filter
}

// legacyStale returns a filter for the documents with locks of the legacy library that may
// have run out before a time. They are compared with that time too, although they were set
// by the wall clock of a process.
func (d *Driver) legacyStale(now time.Time) bson.D {
	return append(d.isRunning(field("lease_until", nil)), field("status.mod_ts", field("$lt", now.Add(-d.opts.LockTimeout)))...)
}

// tooLong returns a filter for the documents whose leases last longer than any that this
// driver gave. Other processes may give longer leases.
func (d *Driver) tooLong(now time.Time) bson.D {
	return d.isRunning(field("lease_until", field("$gt", now.Add(d.leases.longestTime()+maxExcess))))
}

// endedUnrenewed records leases, and returns the documents whose leases were seen unrenewed
// for their whole length. began is when the query began.
func (d *Driver) endedUnrenewed(began time.Duration, docs []*document) (over []*document) {
	lengths := make(map[lease]time.Duration, len(docs))
	byLease := make(map[lease]*document, len(docs))
	for _, doc := range docs {
		l := doc.seenLease()
		lengths[l] = doc.leaseEnds(d.opts.LockTimeout).Sub(doc.Status.ModificationTime)
		byLease[l] = doc
	}
	for _, l := range d.seen.See(began, d.elapsed(), lengths) {
		over = append(over, byLease[l])
	}
	return over
}

// recovery returns the change that hands the lease of a document back, unless it was
// renewed since the document was read.
func (d *Driver) recovery(doc *document, now time.Time) *change {
	seen := doc.seenLease()
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		timely: true,
		step: func(doc *document) error {
			if !doc.runs() || doc.seenLease() != seen {
				return errMoved
			}
			driver.Interrupt(&doc.Record, doc.leaseEnds(d.opts.LockTimeout), now)
			doc.handBack(driver.HandBack{}, now)
			return nil
		},
	}
}

// waitsFromFuture returns a filter for documents that are not parked and whose waits begin
// after a time.
func waitsFromFuture(now time.Time) bson.D {
	return bson.D{
		{Key: "line.since", Value: bson.D{{Key: "$exists", Value: true}, {Key: "$gt", Value: now.Add(clockSlack)}}},
		{Key: "line.due", Value: exist(true)},
	}
}

// shortening returns the change that makes the wait of a document begin now.
func shortening(doc *document, now time.Time) *change {
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		step: func(doc *document) error {
			by := doc.Line.Since.Sub(now)
			if by <= clockSlack || doc.Line.Due.IsZero() {
				return errMoved
			}
			doc.Line.Since, doc.Line.Due = now, doc.Line.Due.Add(-by)
			if doc.Line.In != inScheduled {
				return nil
			}
			// It was put by a retry: all its times count from the same moment.
			for _, at := range []*time.Time{&doc.TimeInfo.Created, &doc.TimeInfo.WaitUntil, &doc.TimeInfo.DispatchBy, &doc.Line.Expires} {
				if !at.IsZero() {
					*at = at.Add(-by)
				}
			}
			return nil
		},
	}
}
