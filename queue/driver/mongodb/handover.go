package mongodb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// The next attempt of a job takes the place of the one before in steps that any process can complete: it is stored as a
// document that waits for that (see handover), then the attempt before makes way, and the next one takes its place.

// handover holds what the next attempt will take over from the attempt before it.
type handover struct {
	// From is the name of the record of the attempt before.
	From string `bson:"from"`
	// Order is the order of that record, or zero if the legacy library stored it. A record of
	// that name with another order is of a later run of the job, or of another job of its ID.
	Order int64 `bson:"order,omitempty"`
	// UniqueLock is the unique key that the attempt before holds.
	UniqueLock string `bson:"unique_lock,omitempty"`
	// Sessions are the IDs of the last maxSessions sessions in whose transactions the next
	// attempt was to take over. If a process died in such a transaction, another process
	// ends it.
	Sessions []bson.Raw `bson:"sessions,omitempty"`
}

// maxSessions is the maximum number of sessions that a handover lists.
const maxSessions = 8

// without returns the sessions of the handover except one.
func (h *handover) without(session bson.Raw) []bson.Raw {
	return slices.DeleteFunc(slices.Clone(h.Sessions), func(id bson.Raw) bool { return bytes.Equal(id, session) })
}

// signedBy returns the handover with the ID of a session.
func (h *handover) signedBy(session bson.Raw) *handover {
	signed := *h
	signed.Sessions = append(h.without(session), session)
	signed.Sessions = signed.Sessions[max(0, len(signed.Sessions)-maxSessions):]
	return &signed
}

// awaitsHandover reports whether the document waits to take the place of the attempt before it.
func (doc *document) awaitsHandover() bool { return doc.Handover != nil && doc.Line.In == inHandover }

// follows reports whether the document, which waits to take a place, was written for an attempt, and not
// for one of its name in an earlier run.
func (doc *document) follows(old *document) bool {
	return doc.Handover.Order == 0 || doc.Handover.Order == old.Order
}

// resume completes a retry that was interrupted after it wrote the next attempt.
func (d *Driver) resume(ctx context.Context, next *document) error {
	r, err := d.newRetrying(nil)
	if err != nil {
		return err
	}
	defer r.leave(ctx)
	return r.handOver(ctx, nil, next)
}

// handOver ends the attempt before and lets the next one take its place. old and next are
// their documents; if old is nil, both are read. Without a transaction both must be read after next
// was stored.
func (r *retrying) handOver(ctx context.Context, old, next *document) error {
	waiting, before := next, driver.Lease{Queue: next.Group, Name: next.Handover.From}
	for round := range maxRounds {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return unknown(err) // the sweep completes it
			}
		}
		if round > 0 || old == nil {
			var err error
			if old, next, err = r.readBoth(ctx, waiting); err != nil {
				return unknown(err)
			}
		}
		done, err := r.handOverOnce(ctx, old, next, before)
		switch {
		case errors.Is(err, errBlocked):
			return unknown(err) // the sweep completes it
		case err != nil || done:
			return err
		}
	}
	return unknown(errContended)
}

// handOverOnce is handOver for documents that were just read. It reports whether the retry is complete; if it is not,
// it must be tried again.
func (r *retrying) handOverOnce(ctx context.Context, old, next *document, before driver.Lease) (done bool, err error) {
	if next != nil && next.awaitsHandover() {
		return r.tryHandOver(ctx, old, next)
	}
	err = settled(old, next, before)
	if err != nil {
		return false, err
	}
	done, err = r.confirmed(ctx, []*document{cmp.Or(old, next)}) // and with it what was written before
	switch {
	case err != nil:
		return false, unknown(err)
	case done:
		r.tell(driver.In(before.Queue)) // this process may have made the swap
	}
	return done, nil
}

// settled returns the outcome of a retry whose next attempt no longer waits to take over. old
// is the attempt before, of the record that before names. old and next are nil if they are gone.
func settled(old, next *document, before driver.Lease) error {
	switch {
	case old == nil && next == nil:
		return leaseLost(before)
	case old == nil, old.madeWay():
		return nil // it is complete
	case old.retries():
		return errMoved // it begins again
	default:
		return leaseLost(old.lease())
	}
}

// readBoth reads the documents of both attempts. That of another run of the job is left out.
func (r *retrying) readBoth(ctx context.Context, next *document) (old, now *document, err error) {
	before, first := next.Handover.From, firstName(&next.Record)
	found, err := r.find(ctx, []*change{{queue: next.Group, name: before}, {queue: next.Group, name: next.Name}, {queue: next.Group, name: first}})
	if err != nil {
		return nil, nil, fmt.Errorf("reading both attempts: %w", err)
	}
	old, now = found[key{next.Group, before}], found[key{next.Group, next.Name}]
	if old != nil && !next.follows(old) {
		old = nil
	}
	if now != nil && now.Order != next.Order {
		now = nil
	}
	if doc := found[key{next.Group, first}]; old != nil && doc != nil {
		old.idIsTaken = doc.id == first && doc.keepsID()
	}
	return old, now, nil
}

// tryHandOver reports false if one of the documents has changed since it was read.
func (r *retrying) tryHandOver(ctx context.Context, old, next *document) (done bool, err error) {
	switch {
	case old == nil: // it ended for good, or it would still be stored
		before := driver.Lease{Queue: next.Group, Name: next.Handover.From}
		return true, errors.Join(leaseLost(before), r.removeNext(ctx, next))
	case old.madeWay():
		err = r.takePlace(ctx, nil, next)
		if err == nil || errors.Is(err, errMoved) {
			return err == nil, nil
		}
		return false, unknown(err) // the sweep completes it
	case !old.retries():
		return true, errors.Join(leaseLost(old.lease()), r.removeNext(ctx, next))
	}
	next, err = r.sign(ctx, old, next)
	if err != nil || next == nil {
		return false, err
	}
	ended := r.ended
	if ended == nil {
		record := old.Record
		record.RetryInfo.End = stored(time.Now())
		ended = &record
	}
	if r.session == nil && old.JobID == "" {
		return true, r.swapInSteps(ctx, ended, next) // no index keeps the second statement from being made alone
	}
	s := newSwap(r)
	s.add(ended, old, next)
	outcome, err := s.run(ctx)
	switch outcome {
	case swapUnknown:
		r.failures++
		if ctx.Err() != nil || r.failures == maxFailures || !isTransient(err) && !isUnacknowledged(err) {
			return false, unknown(err) // the sweep completes it
		}
		return false, nil
	case swapped:
		r.follow(ctx, s.changes())
		return true, nil
	case swapBlocked:
		return false, r.endOtherSessions(ctx, next)
	case swapConflict:
		r.conflicts++
		if r.conflicts%maxConflicts > 0 || len(r.otherSessions(next)) == 0 {
			return false, nil
		}
		return false, r.endOtherSessions(ctx, next)
	case swapRefused:
		return true, r.swapInSteps(ctx, ended, next)
	default:
		return false, err
	}
}

// swapInSteps makes the swap in two writes. What a unique index refuses the second one, the next attempt
// does without.
func (d *Driver) swapInSteps(ctx context.Context, ended *driver.Record, next *document) error {
	c := &change{
		queue: ended.Group,
		name:  ended.Name,
		step: func(doc *document) error {
			switch {
			case !next.follows(doc):
				return leaseLost(doc.lease())
			case doc.retries():
				doc.makeWay(ended, next.Order)
				return nil
			case doc.madeWay():
				return nil // another process has done it
			default:
				return leaseLost(doc.lease())
			}
		},
	}
	if err := d.write(ctx, []*change{c}); err != nil {
		return err
	}
	switch {
	case errors.Is(c.err, driver.ErrLeaseLost), errors.Is(c.err, errGone): // it ended in another way
		return errors.Join(c.err, d.removeNext(ctx, next))
	case c.err != nil:
		return c.err
	}
	if err := d.takePlace(ctx, c, next); err != nil && !errors.Is(err, errMoved) {
		// The attempt before has ended, so the sweep will complete it.
		d.leaveToSweep(ctx, "putting the next attempt of a job in the place of the one before", err)
	}
	return nil
}

// makeWay ends a document that the next attempt replaces, and drops what the next attempt
// takes over. A document of the legacy library gets the order of the next attempt.
func (doc *document) makeWay(ended *driver.Record, order int64) {
	doc.endRetry(ended)
	doc.JobID, doc.UniqueLock, doc.Dependents, doc.Settle = "", "", false, false
	if doc.Order == 0 {
		doc.Order = order
	}
}

// madeWay reports whether the document ended because the next attempt replaces it. One of the
// legacy library that ended in another way has no job ID either, but also no order.
func (doc *document) madeWay() bool { return doc.final() && doc.JobID == "" && doc.Order != 0 }

// takePlace gives a document what the attempt before it had.
func (doc *document) takePlace(dependents bool) error {
	if !doc.awaitsHandover() {
		return errMoved
	}
	doc.JobID = doc.jobID()
	doc.UniqueLock = doc.Handover.UniqueLock
	doc.Dependents = doc.Dependents || dependents
	doc.Scopes = nameset.Without(doc.EnqueueScopes, nil)
	doc.Handover = nil
	doc.Line.Since = ceilMillisecond(doc.TimeInfo.Created)
	doc.enter(nil, time.Now())
	return nil
}

// takePlace puts the next attempt in the place of an attempt that has ended. If another job has
// taken the job's ID or unique key since, the next attempt does without it: its ID is the name of its
// record.
func (d *Driver) takePlace(ctx context.Context, made *change, next *document) error {
	// It may have dependents: the attempt before may have been marked since it was read.
	take := func(doc *document) error {
		if doc.Order != next.Order {
			return errMoved // it is of a later job of the ID, of which the attempt before may not have ended
		}
		return doc.takePlace(true)
	}
	c := &change{queue: next.Group, name: next.Name, step: take}
	lost := map[uniqueIndex]bool{}
	c.refused = func(doc *document, r *refusal) error {
		lost[r.index] = true
		if lost[byScope] {
			return r // it waits until the scope is free
		}
		if err := take(doc); err != nil {
			return err
		}
		if lost[byJobID] {
			doc.JobID = doc.Name
		}
		if lost[byUniqueKey] {
			doc.UniqueLock = ""
		}
		return nil
	}
	err := d.write(ctx, []*change{c})
	if c.landed() && lost[byJobID] {
		logging.Error(ctx, message.Fields{
			"message":    "another job was put under the ID of a job while its attempts changed places; both run",
			"collection": d.jobs.Name(),
			"queue":      next.Group,
			"record":     next.Name,
		})
	}
	changes := []*change{c}
	if made != nil {
		changes = append(changes, made)
	}
	d.follow(ctx, changes)
	if err == nil {
		err = c.err
	}
	return err
}

// removeNext removes a next attempt that will not take over.
func (d *Driver) removeNext(ctx context.Context, next *document) error {
	filter := append(field("_id", next.id), next.guard...)
	if _, err := d.jobs.DeleteOne(ctx, filter); err != nil {
		return fmt.Errorf("removing the next attempt: %w", err)
	}
	return nil
}

// sign adds the ID of the session to the next attempt of another process, if a transaction is
// needed. It returns nil if the document has changed or a transaction was in the way.
func (r *retrying) sign(ctx context.Context, old, next *document) (*document, error) {
	own := r.sessionID(old)
	if own == nil || len(next.Handover.without(own)) < len(next.Handover.Sessions) {
		return next, nil
	}
	c := &change{queue: next.Group, name: next.Name, before: next, quiet: true, step: func(doc *document) error {
		if doc.Handover == nil {
			return errMoved
		}
		doc.Handover = doc.Handover.signedBy(own)
		return nil
	}}
	if err := r.write(ctx, []*change{c}); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(c.err, errBlocked):
		return nil, r.endOtherSessions(ctx, next)
	case errors.Is(c.err, errMoved), errors.Is(c.err, errGone):
		return nil, nil
	}
	return c.after, c.err
}

// endOtherSessions ends the transactions of processes that died while they let the next
// attempt take over. A server would keep them for a minute. Those of processes that live
// begin again.
func (r *retrying) endOtherSessions(ctx context.Context, next *document) error {
	others := r.otherSessions(next)
	if len(others) == 0 {
		return errBlocked
	}
	if err := r.client.Database("admin").RunCommand(ctx, field("killSessions", others)).Err(); err != nil {
		return fmt.Errorf("%w: ending it: %w", errBlocked, err)
	}
	return nil
}

// otherSessions returns the sessions of other processes that the next attempt lists.
func (r *retrying) otherSessions(next *document) []bson.Raw {
	if r.session == nil {
		return next.Handover.Sessions
	}
	return next.Handover.without(r.session.ID())
}
