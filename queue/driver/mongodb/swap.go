package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/readpref"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/queue/driver"
)

// swap ends attempts and lets the next ones take their places, with the statements of one
// command: first the statements that end attempts, then the ones that let the next attempts take over. If
// the first do not end an attempt, because it has changed, a unique index refuses to let its
// successor take over, because the job's ID is taken. That attempt can't be gone: it awaited its
// retry after its successor was stored, and while that waits, no attempt of the job is removed
// (see removeAll). If the command is interrupted between its statements, the sweep completes it,
// and until then readers see the next attempt as the job's latest one.
//
// If other jobs could take what an attempt holds between the statements, they are a transaction
// on a replica set. It is short: all documents exist and were read before it begins. But a server
// spends several times as much on each statement in it.
type swap struct {
	*retrying
	ended, next   []*change
	inTransaction bool
}

func newSwap(r *retrying) *swap { return &swap{retrying: r} }

// add adds a pair of attempts.
func (s *swap) add(ended *driver.Record, old, next *document) {
	s.inTransaction = s.inTransaction || s.needsTransaction(old)
	s.ended = append(s.ended, &change{queue: old.Group, name: old.Name, before: old, shares: true, step: func(doc *document) error {
		doc.makeWay(ended, next.Order)
		return nil
	}})
	s.next = append(s.next, &change{queue: next.Group, name: next.Name, before: next, shares: true, step: func(doc *document) error {
		return doc.takePlace(old.Dependents)
	}})
}

// changes returns the changes, first those that end attempts.
func (s *swap) changes() []*change { return slices.Concat(s.ended, s.next) }

// swapOutcome is what became of a swap.
type swapOutcome int

const (
	swapMoved    swapOutcome = iota // another process has changed one of the documents
	swapUnknown                     // the server did not answer
	swapped                         // it was made
	swapBlocked                     // a write of another process is in the way
	swapConflict                    // the transaction of another process has changed one of the documents
	swapRefused                     // a unique index refused it
)

// run makes the swap. An error is the reason why the outcome is not known.
func (s *swap) run(ctx context.Context) (swapOutcome, error) {
	w := &writing{Driver: s.Driver, changes: s.changes()}
	for _, c := range w.changes {
		c.state = known
	}
	sending := w.prepare()
	if len(changesOf(sending)) != len(w.changes) {
		var errs []error
		for _, c := range w.changes {
			errs = append(errs, c.err)
		}
		return swapMoved, errors.Join(errs...)
	}
	send := s.sendStatements
	if s.inTransaction {
		send = s.sendTransaction
	}
	a, err := send(ctx, statementsOf(sending))
	switch {
	case err == nil && len(a.refused) > 0 && isConflict(mongo.WriteException{WriteErrors: a.refused}):
		return swapConflict, nil
	case err == nil && len(a.refused) > 0 && (!s.inTransaction || a.n < len(s.ended)):
		return swapMoved, nil // a part of it was made, or one of the attempts to end has changed
	case err == nil && len(a.refused) > 0:
		return swapRefused, nil
	case err == nil && a.unacknowledged != nil:
		return swapUnknown, a.unacknowledged
	case err == nil && a.n != len(w.changes):
		return swapMoved, nil
	case err == nil:
		for _, c := range w.changes {
			c.land(c.lastTry().doc)
		}
		return swapped, nil
	case isTimedOut(err):
		return swapBlocked, nil //nolint:nilerr // It is the outcome.
	case isConflict(err), hasLabel(err, labelTransient) && !hasLabel(err, labelUnknownCommit):
		return swapConflict, nil
	default:
		return swapUnknown, err
	}
}

// sendStatements sends the statements of a swap without a transaction.
func (s *swap) sendStatements(ctx context.Context, statements []bson.Raw) (*answer, error) {
	limit := batchLimit
	if len(s.ended) == 1 {
		limit = singleLimit
	}
	return s.send(ctx, updating, statements, true, limit)
}

// sendTransaction sends the statements of a swap in a transaction.
func (s *swap) sendTransaction(ctx context.Context, statements []bson.Raw) (*answer, error) {
	opts := options.Transaction().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Local()).SetWriteConcern(writeconcern.Majority())
	if err := s.session.StartTransaction(opts); err != nil {
		return nil, fmt.Errorf("starting a transaction: %w", err)
	}
	a, err := s.send(mongo.NewSessionContext(ctx, s.session), updating, statements, true, transactionLimit) //nolint:contextcheck // It inherits it.
	if err != nil || len(a.refused) > 0 || a.n != len(s.ended)+len(s.next) {
		s.abort(ctx)
		return a, err
	}
	for failures := 1; ; failures++ {
		err = s.session.CommitTransaction(ctx)
		if err == nil {
			return a, nil
		}
		if !hasLabel(err, labelUnknownCommit) || failures == maxFailures || ctx.Err() != nil {
			return nil, fmt.Errorf("committing: %w", err)
		}
	}
}

// abort aborts the transaction. If that fails, the server has aborted it, or will.
func (s *swap) abort(ctx context.Context) {
	aborting, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = s.session.AbortTransaction(aborting)
}

// transactionLimit is the time limit of the command of a transaction. It is longer than the others,
// because a statement in a transaction does not wait for the transactions of other clients: it fails
// at once.
const transactionLimit = 5 * time.Second

// abortTimeout bounds the wait for an aborted transaction. The server aborts it by
// itself eventually.
const abortTimeout = time.Second

// endSession ends a session and aborts its transaction if it was not committed.
func endSession(ctx context.Context, session mongo.Session) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	session.EndSession(ending)
}
