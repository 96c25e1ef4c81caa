package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
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
			if !doc.awaits(ended) {
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

// awaits reports whether the document awaits the retry of an attempt, and not that of a later run: a
// restart and a claim have raised its count since.
func (doc *document) awaits(ended *driver.Record) bool {
	return doc.retries() && doc.Status.ModificationCount <= ended.Status.ModificationCount
}

// endRetry ends for good a document that awaits its retry.
func (doc *document) endRetry(ended *driver.Record) {
	final := *ended
	final.RetryInfo.NeedsRetry = false
	doc.end(&final)
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
	doc.Scopes = nameset.Without(next.EnqueueScopes, nil)
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

// Retry implements driver.Driver. It writes the next attempt in a place where it can't be
// claimed, then ends the attempt before and lets the next one take its place (see swap). Any
// process that finds an interrupted retry completes it. On a standalone server, which has no
// transactions, a job holds no scope and has no unique key for the instant between these two
// steps. If another job takes one of its scopes then, the next attempt waits for that job.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	if err = d.retryTogether(plain(ctx), ended, next, leave); err != nil {
		return fmt.Errorf("replacing record %q by its next attempt %q: %w", ended.Name, next.Name, retryError(err, ended))
	}
	return nil
}

func (d *Driver) retry(ctx context.Context, ended, next *driver.Record) error {
	r, err := d.newRetrying(ended)
	if err != nil {
		return err
	}
	defer r.leave(ctx)
	for round := range maxRounds {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		old, taken, err := d.findPair(ctx, ended, next)
		doc := taken[next.Group]
		switch {
		case err != nil:
			return err
		case old == nil, old.retries() && !old.awaits(ended):
			return errGone
		case doc != nil && (old.retries() || old.madeWay() && doc.awaitsHandover()):
			if err = d.completeAnother(ctx, ended, doc); errors.Is(err, errMoved) {
				continue
			}
			return err
		case !old.retries():
			return errGone
		}
		doc = d.successor(old, next, taken)
		var waiting *document
		if err = d.checkNewScopes(ctx, old, doc); err == nil {
			waiting, err = r.insertHandover(ctx, old, doc)
		}
		if err == nil && !r.needsTransaction(old) {
			old = nil // to be read again, now that no attempt of the job is removed any more
		}
		if err == nil {
			err = r.handOver(ctx, old, waiting)
		}
		if !errors.Is(err, errMoved) { // otherwise another process wrote the next attempt first
			return err
		}
	}
	return errContended
}

// retrying is a retry in progress.
type retrying struct {
	*Driver
	// ended is what is stored of the attempt before. If it is nil, that attempt is read.
	ended *driver.Record
	// session has the transaction of the swap, if it needs one; nil on a standalone server.
	session mongo.Session
	// failures is the number of times that the server did not answer.
	failures int
	// conflicts is the number of times that a transaction of another process was in the way.
	conflicts int
}

// maxConflicts is the number of conflicts, with a pause after each, after which a transaction of
// another process is taken for that of a dead one: a live process would have ended it.
const maxConflicts = 8

func (d *Driver) newRetrying(ended *driver.Record) (*retrying, error) {
	r := &retrying{Driver: d, ended: ended}
	if !d.isReplica {
		return r, nil
	}
	session, err := d.client.StartSession()
	if err != nil {
		return nil, fmt.Errorf("starting a session: %w", err)
	}
	r.session = session
	return r, nil
}

func (r *retrying) leave(ctx context.Context) {
	if r.session != nil {
		endSession(ctx, r.session)
	}
}

// sessionID returns the ID of the session of a transaction that replaces an attempt, or nil if it
// needs none.
func (r *retrying) sessionID(old *document) bson.Raw {
	if !r.needsTransaction(old) {
		return nil
	}
	return r.session.ID()
}

// needsTransaction reports whether the statement that ends an attempt and the one that lets its
// successor take over must be a transaction: because other jobs could take between them what the
// attempt holds, or because the attempt, which the legacy library stored, has no job ID that keeps
// the second from being made without the first.
func (r *retrying) needsTransaction(old *document) bool {
	return r.session != nil && (old.holdsMore() || old.JobID == "" || !old.idIsTaken)
}

// holdsMore reports whether the document holds what other jobs may want, besides its job's ID.
func (doc *document) holdsMore() bool { return doc.UniqueLock != "" || len(doc.Scopes) > 0 }

// firstName returns the name of a job's first attempt. As long as that is stored, no other job can
// be put under its ID.
func firstName(r *driver.Record) string {
	first := r.RetryInfo
	first.CurrentAttempt = 0
	return driver.RecordName(r.Group, r.JobID(), first)
}

// keepsID reports whether the document, which is the first attempt of a job, stays stored while another
// attempt waits to take a place. removeAll then leaves it alone, but a slow process may be about to remove it
// if its time was over before that attempt was stored.
func (doc *document) keepsID() bool {
	return !doc.final() || doc.ForgetAt.IsZero() || doc.ForgetAt.After(time.Now().Add(forgetSlack))
}

// forgetSlack is by how much the clock of a process that forgets records may be ahead.
const forgetSlack = time.Minute

func duplicateName(r *driver.Record) error {
	return &amboy.DuplicateJobError{JobID: r.JobID(), Reason: amboy.DuplicateID, Value: r.JobID()}
}

// findPair reads the document of a record to be replaced, and by queue the documents that
// have the name of the next attempt.
func (d *Driver) findPair(ctx context.Context, ended, next *driver.Record) (old *document, taken map[string]*document, err error) {
	taken = map[string]*document{}
	ids := append(d.idsOf(ended.Group, ended.Name), d.idsOf(next.Group, next.Name)...)
	first, firstIsThere := firstName(ended), false
	err = d.each(ctx, field("_id", field("$in", append(ids, first))), withoutBodies(), func(doc *document) error {
		firstIsThere = firstIsThere || doc.id == first && doc.Group == ended.Group && doc.keepsID()
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
	if old != nil {
		old.idIsTaken = firstIsThere
	}
	return old, taken, nil
}

// completeAnother completes the retry of another process that has written the next attempt.
// If the record is not such an attempt, it refuses the retry. It returns errMoved if that attempt was
// to replace another one.
func (d *Driver) completeAnother(ctx context.Context, ended *driver.Record, next *document) error {
	if next.Handover == nil || next.Handover.From != ended.Name {
		return duplicateName(&next.Record)
	}
	switch err := d.resume(ctx, next); {
	case err == nil:
		return errGone
	case errors.Is(err, driver.ErrLeaseLost):
		return errMoved
	default:
		return err
	}
}

// checkNewScopes refuses the next attempt if another job holds a scope that the attempt
// before does not have.
func (d *Driver) checkNewScopes(ctx context.Context, old, doc *document) error {
	added := nameset.Without(doc.Scopes, old.Scopes)
	if len(added) == 0 {
		return nil
	}
	var refused error
	err := d.each(ctx, d.inQueue(doc.Group, bson.E{Key: "scopes", Value: field("$in", added)}), withoutBodies(), func(holder *document) error {
		for _, scope := range added {
			if slices.Contains(holder.Scopes, scope) {
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
func (r *retrying) insertHandover(ctx context.Context, old, doc *document) (*document, error) {
	waiting := r.handoverOf(old, doc)
	raw, err := r.encode(waiting)
	if err == nil && len(raw) > maxDocumentSize {
		err = tooLarge(waiting, len(raw))
	}
	if err != nil {
		return nil, err
	}
	r.sweeper.watch()
	_, err = r.jobs.InsertOne(ctx, raw)
	if err != nil {
		if mongo.IsDuplicateKeyError(err) {
			return nil, errMoved
		}
		return nil, failed(ctx, err)
	}
	waiting.body = hashOf(waiting.Job)
	waiting.reguard()
	return waiting, nil
}

// handoverOf returns the next attempt without what it will take over.
func (r *retrying) handoverOf(old, doc *document) *document {
	waiting := *doc
	waiting.Handover = &handover{From: old.Name, Order: old.Order, UniqueLock: doc.UniqueLock}
	if own := r.sessionID(old); own != nil {
		waiting.Handover = waiting.Handover.signedBy(own)
	}
	// By this revision other processes learn of the retry, and see to it that it is completed.
	waiting.Rev = r.revs.next() + leftRevision
	waiting.JobID, waiting.UniqueLock, waiting.Dependents, waiting.Scopes = "", "", false, nil
	waiting.Line = waiting.newLine()
	waiting.Line.In, waiting.Line.Wants, waiting.Line.Expires = inHandover, nil, time.Time{}
	return &waiting
}
