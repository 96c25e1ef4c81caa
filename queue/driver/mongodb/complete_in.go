package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver"
)

// An attempt can end in a transaction of the caller. The transaction then has the document until its
// end, so no other process takes over the lease meanwhile; and if one has done so since the transaction
// began, the server refuses the write. What follows from the end can't be part of the transaction,
// because it changes documents that other processes change too, which would be conflicts. It is done
// after the commit, by whichever comes first: FollowEnd, this process's change stream, or, if the process
// dies, a sweep of another one, whose change stream shows that a transaction has ended a job.

// roundsInTransaction is the maximum number of times that documents are written in a transaction. A second
// round is needed if what is known of some is outdated, and a third one if a statement then changed only some
// of its documents. No one else changes them meanwhile.
const roundsInTransaction = 4

// completeIn ends attempts in the transaction that ctx carries.
func (d *Driver) completeIn(ctx context.Context, completions []driver.Completion) ([]error, error) {
	changes, tx := make([]*change, len(completions)), transactionOf(ctx)
	for i, c := range completions {
		// The lease stays known, because the transaction may not be committed.
		changes[i] = d.completion(c, d.leases.of(c.Lease))
		changes[i].made = nil // an end that the document shows is not one of this call
		end := changes[i].step
		changes[i].step = func(doc *document) error {
			if d.barrier.puts.awaits(tx, key{doc.Group, doc.jobID()}) {
				doc.Dependents = true // which no Put in a transaction writes (see markTargets)
			}
			return end(doc)
		}
	}
	leaseOf := func(i int) driver.Lease { return completions[i].Lease }
	err := d.writeIn(ctx, changes)
	switch {
	case errors.Is(err, mongo.ErrWrongClient):
		err = fmt.Errorf("%w: it must be one of the client of the queue: %w", driver.ErrForeignTransaction, err)
	case isConflict(err):
		if errs := d.lostTo(plain(ctx), changes, leaseOf, err); errs != nil {
			return errs, nil
		}
		err = fmt.Errorf("a job has changed since the transaction began, as when its lease is renewed or its progress stored; repeat the transaction: %w", err)
	}
	if err != nil {
		// A single chain of errors, in which the client finds the label of a transaction to repeat.
		return nil, fmt.Errorf("completing %d records in the caller's transaction: %w", len(completions), err)
	}
	for i, c := range changes {
		if c.landed() {
			d.ends.add(leaseOf(i), c)
		}
	}
	return errorsOf(changes, leaseOf), nil
}

// writeIn makes changes in the transaction that ctx carries. After an error the transaction has ended,
// or must be rolled back.
func (d *Driver) writeIn(ctx context.Context, changes []*change) error {
	for _, c := range changes {
		if c.before != nil {
			c.state = known
		}
	}
	w := &writing{Driver: d, changes: changes, foreign: true}
	for range roundsInTransaction {
		if err := w.read(ctx); err != nil {
			return fmt.Errorf("reading records: %w", err)
		}
		sending := w.prepare()
		if len(sending) == 0 {
			return nil
		}
		// It does not wait for other transactions, but fails.
		a, err := d.send(ctx, updating, statementsOf(sending), true, 0)
		if err == nil && len(a.refused) > 0 {
			err = mongo.WriteException{WriteErrors: a.refused}
		}
		if err == nil {
			err = w.sent(ctx, sending, a, nil)
		}
		if err != nil {
			return err
		}
		if !w.has(unread, known) {
			return nil
		}
	}
	return errContended
}

// lostTo returns the errors of changes whose transaction met a conflict with another one, if that has
// taken some of the leases, and nil otherwise.
func (d *Driver) lostTo(ctx context.Context, changes []*change, leaseOf func(i int) driver.Lease, conflict error) []error {
	found, err := d.find(ctx, changes)
	if err != nil {
		return nil // the repeated transaction finds out
	}
	errs, some := make([]error, len(changes)), false
	for i, c := range changes {
		errs[i] = conflict
		if doc := found[key{c.queue, c.name}]; doc == nil || !doc.holds(leaseOf(i)) {
			errs[i], some = leaseLost(leaseOf(i)), true
		}
	}
	if !some {
		return nil
	}
	return errs
}

// transactedEnds holds the ends that Complete wrote in callers' transactions, until what follows from them
// is done.
type transactedEnds struct {
	mu        sync.Mutex
	open      map[string]transactedEnd // by _id; the transactions may have ended meanwhile
	committed []transactedEnd
}

// transactedEnd is the change that ended an attempt.
type transactedEnd struct {
	lease driver.Lease
	*change
}

func (e *transactedEnds) add(lease driver.Lease, c *change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil || len(e.open) == maxTransacted {
		e.open = map[string]transactedEnd{} // a sweep does what follows from the others
	}
	e.open[c.after.id] = transactedEnd{lease, c}
}

// commit is called when a document was committed with a revision. It reports whether take returns what
// ended it.
func (e *transactedEnds) commit(id string, rev int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	end, known := e.open[id]
	if !known || end.after.Rev != rev {
		return false
	}
	delete(e.open, id)
	e.committed = append(e.committed, end)
	return true
}

// take returns committed ends, and reports whether there are more.
func (e *transactedEnds) take() (ended []*change, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.committed), sweepBatch)
	for _, end := range e.committed[:n] {
		ended = append(ended, end.change)
	}
	e.committed = slices.Delete(e.committed, 0, n)
	return ended, len(e.committed) > 0
}

// takeOf returns the end of a lease, whose document has one of some _ids; nil if it is not known.
func (e *transactedEnds) takeOf(ids []any, lease driver.Lease) *change {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		id, _ := id.(string)
		if end, known := e.open[id]; known && end.lease == lease {
			delete(e.open, id)
			return end.change
		}
	}
	at := slices.IndexFunc(e.committed, func(end transactedEnd) bool { return end.lease == lease })
	if at < 0 {
		return nil
	}
	c := e.committed[at].change
	e.committed = slices.Delete(e.committed, at, at+1)
	return c
}

// drop forgets the end of a document's lease that was not committed: the run has ended otherwise. The end of a
// later run stays.
func (e *transactedEnds) drop(ran *document) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if end, known := e.open[ran.id]; known && ran.holds(end.lease) {
		delete(e.open, ran.id)
	}
}

// FollowEnd implements driver.EndFollower.
func (d *Driver) FollowEnd(ctx context.Context, lease driver.Lease) {
	leave, err := d.enter(ctx)
	if err != nil {
		return // another process sweeps
	}
	defer leave()
	d.leases.take(lease) // it stayed known
	if c := d.ends.takeOf(d.idsOf(lease.Queue, lease.Name), lease); c != nil {
		d.follow(plain(ctx), []*change{c})
	}
}

// followCommitted does what follows from the committed ends that the change stream has shown.
func (d *Driver) followCommitted(ctx context.Context) {
	ended, more := d.ends.take()
	if len(ended) > 0 {
		d.follow(ctx, ended)
	}
	if more {
		d.sweeper.checkCommitted()
	}
}
