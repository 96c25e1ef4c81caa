package mongodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx = plain(ctx)
	c := retryEnd(ended)
	err = d.apply(ctx, []*change{c})
	if err == nil {
		err = d.endShort(ctx, []*change{c}, func(_ int, tooLarge error) *change {
			return retryEnd(driver.ShortEnd(ended, tooLarge))
		})
	}
	if err == nil {
		err = retryError(c.err, ended)
	}
	if err != nil {
		return fmt.Errorf("ending the retry of record %q: %w", ended.Name, err)
	}
	return nil
}

// retryEnd returns the change that ends for good a record that awaits its retry.
func retryEnd(ended *driver.Record) *change {
	return &change{
		queue: ended.Group,
		name:  ended.Name,
		step: func(doc *document) error {
			if !doc.retries() {
				return leaseLost(doc.lease())
			}
			doc.endRetry(ended)
			return nil
		},
		made: func(doc *document) bool { return doc.final() && doc.RetryInfo.End.Equal(stored(ended.RetryInfo.End)) },
	}
}

// retryError translates the error of a change that requires a record to await its
// retry.
func retryError(err error, r *driver.Record) error {
	if errors.Is(err, errGone) || errors.Is(err, driver.ErrLeaseLost) {
		return fmt.Errorf("record %q does not await a retry: %w", r.Name, driver.ErrLeaseLost)
	}
	return err
}

// endRetry ends for good a document that awaits its retry.
func (doc *document) endRetry(ended *driver.Record) {
	final := *ended
	final.RetryInfo.NeedsRetry = false
	doc.end(&final)
}

// makeWay ends a document that the next attempt replaces, and drops what the next attempt
// takes over.
func (doc *document) makeWay(ended *driver.Record) {
	doc.endRetry(ended)
	doc.JobID, doc.UniqueLock, doc.Dependents, doc.Settle = "", "", false, false
}

// successor returns the document of the next attempt of old. If a record of another queue
// has its name, it gets another _id.
func (d *Driver) successor(old *document, next *driver.Record, taken map[string]*document) *document {
	doc := &document{Record: *next, id: next.Name, Rev: d.revs.next()}
	if len(taken) > 0 {
		doc.id = aliasOf(next.Group, next.Name)
	}
	doc.JobID, doc.UniqueLock, doc.Dependents = old.jobID(), old.UniqueLock, old.Dependents
	doc.UniqueKey, doc.UniqueUntil = old.UniqueKey, old.UniqueUntil
	doc.Scopes = without(next.EnqueueScopes, nil)
	if doc.Dependency != nil && len(doc.Dependency.Failed) > 0 {
		dependency := *doc.Dependency
		dependency.Failed = nil
		doc.Dependency = &dependency
	}
	now := time.Now()
	doc.Order = d.orders.next(now, 1)
	doc.Line.Since = ceilMillisecond(doc.TimeInfo.Created)
	doc.enter(nil, now)
	return doc
}

// Retry implements driver.Driver. On a standalone server, which has no transactions, it
// takes two writes. The second has two statements, and for the instant between them the
// job holds no scope and has no unique key. If another job takes one of its scopes then,
// the next attempt waits for that job.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx = plain(ctx)
	if d.isReplica {
		err = d.retryInTransaction(ctx, ended, next)
	} else {
		err = d.retryInSteps(ctx, ended, next)
	}
	if err != nil {
		return fmt.Errorf("replacing record %q by its next attempt %q: %w", ended.Name, next.Name, err)
	}
	return nil
}

// conflictTimeout is how long a retry waits for conflicting writes. It exceeds the minute
// for which a server keeps the transaction of a process that was killed.
const conflictTimeout = 70 * time.Second

// retryInTransaction repeats the transaction until it has no conflict.
func (d *Driver) retryInTransaction(ctx context.Context, ended, next *driver.Record) error {
	began := time.Now()
	for round := 0; round < maxRounds || time.Since(began) < conflictTimeout; round++ {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		done, err := d.tryRetry(ctx, ended, next)
		switch {
		case err == nil:
			d.follow(ctx, done)
			return nil
		case ctx.Err() != nil, errors.Is(err, driver.ErrOutcomeUnknown):
			return err
		case hasLabel(err, labelTransient), errors.Is(err, errMoved), isConflict(err):
		default:
			return err
		}
	}
	return errContended
}

// tryRetry makes both changes in one transaction.
func (d *Driver) tryRetry(ctx context.Context, ended, next *driver.Record) ([]*change, error) {
	session, err := d.client.StartSession()
	if err != nil {
		return nil, fmt.Errorf("starting a session: %w", err)
	}
	defer endSession(ctx, session)
	durable := options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())
	if err = session.StartTransaction(durable); err != nil {
		return nil, fmt.Errorf("starting a transaction: %w", err)
	}
	done, err := d.retryIn(mongo.NewSessionContext(ctx, session), ended, next) //nolint:contextcheck // It inherits it.
	if err != nil {
		return nil, err
	}
	for failures := 1; ; failures++ {
		err = session.CommitTransaction(ctx)
		switch {
		case err == nil:
			return done, nil
		case ctx.Err() == nil && hasLabel(err, labelUnknownCommit) && failures < maxFailures:
		case hasLabel(err, labelTransient) && !hasLabel(err, labelUnknownCommit):
			return nil, err
		default:
			return nil, unknown(fmt.Errorf("committing: %w", err))
		}
	}
}

// abortTimeout bounds the wait for an aborted transaction. The server aborts it by
// itself eventually.
const abortTimeout = time.Second

// endSession ends a session and aborts its transaction if it was not committed.
func endSession(ctx context.Context, session mongo.Session) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	session.EndSession(ending)
}

// retryIn makes both changes as part of a transaction.
func (d *Driver) retryIn(ctx context.Context, ended, next *driver.Record) ([]*change, error) {
	old, taken, err := d.findPair(ctx, ended, next)
	if err != nil {
		return nil, err
	}
	if old == nil || !old.retries() {
		return nil, retryError(errGone, ended)
	}
	if taken[next.Group] != nil {
		return nil, duplicateName(next)
	}
	making := &change{queue: ended.Group, name: ended.Name, before: old, step: func(doc *document) error {
		doc.makeWay(ended)
		return nil
	}}
	w := &writing{Driver: d, left: []*change{making}}
	model, err := w.model(making)
	if err != nil {
		return nil, err
	}
	update := model.(*mongo.UpdateOneModel)
	result, err := d.jobs.UpdateOne(ctx, update.Filter, update.Update)
	if err != nil {
		return nil, err
	}
	if result.MatchedCount == 0 {
		return nil, errMoved
	}
	making.land(making.next)
	doc := d.successor(old, next, taken)
	raw, err := d.encode(doc)
	if err != nil {
		return nil, err
	}
	_, err = d.jobs.InsertOne(ctx, raw)
	if err != nil {
		return nil, insertError(doc, err)
	}
	return []*change{making, {queue: doc.Group, name: doc.Name, after: doc, written: true}}, nil
}

func duplicateName(r *driver.Record) error {
	return amboy.NewDuplicateJobErrorf("record %q is in the queue already", r.Name)
}

// insertError translates the error of inserting one document if it is a refusal.
func insertError(doc *document, err error) error {
	var failure mongo.WriteException
	if errors.As(err, &failure) && len(failure.WriteErrors) == 1 {
		if r := refusalOf(failure.WriteErrors[0]); r != nil {
			return r.errorOf(doc)
		}
	}
	return err
}

// findPair reads the document of a record to be replaced, and by queue the documents that
// have the name of the next attempt.
func (d *Driver) findPair(ctx context.Context, ended, next *driver.Record) (old *document, taken map[string]*document, err error) {
	taken = map[string]*document{}
	ids := append(d.idsOf(ended.Group, ended.Name), d.idsOf(next.Group, next.Name)...)
	err = d.each(ctx, field("_id", field("$in", ids)), withoutBodies(), func(doc *document) error {
		switch {
		case doc.Group == ended.Group && doc.Name == ended.Name:
			old = doc
		case doc.id == next.Name || doc.Name == next.Name && doc.Group == next.Group:
			taken[doc.Group] = doc
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the record and its next attempt: %w", err)
	}
	return old, taken, nil
}

// handover holds what the next attempt will take over from the attempt before it.
type handover struct {
	// From is the name of the record of the attempt before.
	From string `bson:"from"`
	// UniqueLock is the unique key that the attempt before holds.
	UniqueLock string `bson:"unique_lock,omitempty"`
}

// retryInSteps writes the next attempt in a place where it can't be claimed, then ends
// the attempt before and lets the next one take its place. Any process that finds an
// interrupted retry completes it.
func (d *Driver) retryInSteps(ctx context.Context, ended, next *driver.Record) error {
	for round := range maxRounds {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		old, taken, err := d.findPair(ctx, ended, next)
		switch {
		case err != nil:
			return err
		case old == nil || !old.retries():
			return retryError(errGone, ended)
		}
		if doc := taken[next.Group]; doc != nil {
			return d.completeAnother(ctx, ended, doc)
		}
		err = d.tryRetryInSteps(ctx, ended, old, d.successor(old, next, taken))
		if !errors.Is(err, errMoved) {
			return retryError(err, ended)
		}
	}
	return errContended
}

// tryRetryInSteps returns errMoved if another process wrote the next attempt first.
func (d *Driver) tryRetryInSteps(ctx context.Context, ended *driver.Record, old, doc *document) error {
	if err := d.checkNewScopes(ctx, old, doc); err != nil {
		return err
	}
	waiting, err := d.insertHandover(ctx, old, doc)
	if err != nil {
		return err
	}
	swapped, err := d.swap(ctx, ended, old, waiting, doc)
	if err == nil && !swapped {
		err = d.handOver(ctx, ended, waiting)
	}
	if err == nil || errors.Is(err, driver.ErrLeaseLost) {
		return err
	}
	return unknown(err) // the sweep completes it
}

// completeAnother completes the retry of another process that has written the next attempt.
// If the record is not such an attempt, it refuses the retry.
func (d *Driver) completeAnother(ctx context.Context, ended *driver.Record, next *document) error {
	if next.Handover == nil || next.Handover.From != ended.Name {
		return duplicateName(&next.Record)
	}
	if err := d.resume(ctx, next); err != nil && !errors.Is(err, errMoved) && !errors.Is(err, driver.ErrLeaseLost) {
		return err
	}
	return retryError(errGone, ended)
}

// swap ends the attempt before and lets the next one take its place, with the two
// statements of one command. If the attempt before has changed, the first statement does
// nothing and the second is refused because of the job's ID.
func (d *Driver) swap(ctx context.Context, ended *driver.Record, old, waiting, next *document) (swapped bool, err error) {
	w := &writing{Driver: d, left: []*change{
		{queue: old.Group, name: old.Name, before: old, step: func(doc *document) error {
			doc.makeWay(ended)
			return nil
		}},
		{queue: next.Group, name: next.Name, before: waiting, step: func(doc *document) error {
			*doc = *next
			return nil
		}},
	}}
	changes := w.left
	models := w.prepare()
	if len(models) != 2 {
		return false, errors.Join(changes[0].err, changes[1].err)
	}
	result, err := d.jobs.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
	var refused mongo.BulkWriteException
	switch {
	case err == nil && result.MatchedCount == 2:
	case err == nil || errors.As(err, &refused) || (ctx.Err() == nil && isTransient(err)):
		return false, nil //nolint:nilerr // The outcome is read again.
	default:
		return false, failed(ctx, err)
	}
	for _, c := range w.left {
		c.land(c.next)
	}
	d.follow(ctx, w.left)
	return true, nil
}

// checkNewScopes refuses the next attempt if another job holds a scope that the attempt
// before does not have.
func (d *Driver) checkNewScopes(ctx context.Context, old, doc *document) error {
	added := without(doc.Scopes, old.Scopes)
	if len(added) == 0 {
		return nil
	}
	var refused error
	err := d.each(ctx, d.inQueue(doc.Group, bson.E{Key: "scopes", Value: field("$in", added)}), withoutBodies(), func(holder *document) error {
		for _, scope := range added {
			if len(without([]string{scope}, holder.Scopes)) == 0 {
				refused = (&refusal{index: byScope, value: scope}).errorOf(doc)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checking whether its scopes are held: %w", err)
	}
	return refused
}

// insertHandover writes the next attempt without what it will take over.
func (d *Driver) insertHandover(ctx context.Context, old, doc *document) (*document, error) {
	waiting := *doc
	waiting.Handover = &handover{From: old.Name, UniqueLock: doc.UniqueLock}
	waiting.JobID, waiting.UniqueLock, waiting.Dependents, waiting.Scopes = "", "", false, nil
	waiting.Line = waiting.newLine()
	waiting.Line.In, waiting.Line.Wants, waiting.Line.Expires = inHandover, nil, time.Time{}
	raw, err := d.encode(&waiting)
	if err != nil {
		return nil, err
	}
	d.sweeper.watch()
	_, err = d.jobs.InsertOne(ctx, raw)
	if err != nil {
		if mongo.IsDuplicateKeyError(err) {
			return nil, errMoved
		}
		return nil, failed(ctx, err)
	}
	waiting.body = hashOf(waiting.Job)
	waiting.reguard()
	return &waiting, nil
}

// resume completes a retry that was interrupted after it wrote the next attempt.
func (d *Driver) resume(ctx context.Context, doc *document) error {
	found, err := d.find(ctx, []*change{{queue: doc.Group, name: doc.Handover.From}})
	if err != nil {
		return fmt.Errorf("reading the attempt before: %w", err)
	}
	old := found[key{doc.Group, doc.Handover.From}]
	if old == nil {
		return d.takePlace(ctx, nil, doc)
	}
	ended := old.Record
	ended.RetryInfo.End = stored(time.Now())
	return d.handOver(ctx, &ended, doc)
}

// handOver ends the attempt before and lets the next one take its place.
func (d *Driver) handOver(ctx context.Context, ended *driver.Record, next *document) error {
	c := &change{
		queue: ended.Group,
		name:  ended.Name,
		step: func(doc *document) error {
			switch {
			case doc.retries():
				doc.makeWay(ended)
				return nil
			case doc.final() && doc.JobID == "":
				return nil // another process has done it
			default:
				return leaseLost(doc.lease())
			}
		},
	}
	if err := d.write(ctx, []*change{c}); err != nil {
		return err
	}
	if c.err != nil { // the attempt before ended in another way
		filter := append(field("_id", next.id), next.guard...)
		if _, err := d.jobs.DeleteOne(ctx, filter); err != nil {
			return fmt.Errorf("removing the next attempt: %w", err)
		}
		return c.err
	}
	if err := d.takePlace(ctx, c, next); err != nil && !errors.Is(err, errMoved) {
		// The attempt before has ended, so the sweep will complete it.
		d.leaveToSweep(ctx, "putting the next attempt of a job in the place of the one before", err)
	}
	return nil
}

// dropOvertaken removes the next attempt of a job because another job was put under its
// ID in the instant when no document had it.
func (d *Driver) dropOvertaken(ctx context.Context, next *document) error {
	logging.Error(ctx, message.Fields{
		"message":    "job is not retried: another job was put under its ID while its attempts changed places",
		"collection": d.jobs.Name(),
		"queue":      next.Group,
		"record":     next.Name,
	})
	_, err := d.jobs.DeleteOne(ctx, append(field("_id", next.id), next.guard...))
	if err != nil {
		return fmt.Errorf("removing the next attempt: %w", err)
	}
	return nil
}

// takePlace puts the next attempt in the place of an attempt that has ended.
func (d *Driver) takePlace(ctx context.Context, made *change, next *document) error {
	take := func(doc *document) error {
		if doc.Handover == nil || doc.Line.In != inHandover {
			return errMoved
		}
		doc.JobID = doc.jobID()
		doc.UniqueLock = doc.Handover.UniqueLock
		doc.Dependents = true // possibly: the attempt before may have been marked since it was read
		doc.Scopes = without(doc.EnqueueScopes, nil)
		doc.Handover = nil
		doc.Line.Since = ceilMillisecond(doc.TimeInfo.Created)
		doc.enter(nil, time.Now())
		return nil
	}
	c := &change{queue: next.Group, name: next.Name, step: take}
	c.refused = func(doc *document, r *refusal) error {
		if r.index != byUniqueKey {
			return r
		}
		err := take(doc)
		doc.UniqueLock = ""
		return err
	}
	err := d.write(ctx, []*change{c})
	var refused *refusal
	if errors.As(c.err, &refused) && refused.index == byJobID {
		return d.dropOvertaken(ctx, c.before)
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
