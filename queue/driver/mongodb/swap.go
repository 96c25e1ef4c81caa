package mongodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/queue/driver"
)

// swap ends an attempt and lets the next one take its place, with the two statements of one
// command. On a replica set they are a transaction, so that nothing can take the job's ID,
// scopes or unique key between them. The transaction is short: both documents exist and
// were read before it begins.
type swap struct {
	*retrying
	ended, next *change
}

func newSwap(r *retrying, ended *driver.Record, old, next *document) *swap {
	return &swap{
		retrying: r,
		ended: &change{queue: old.Group, name: old.Name, before: old, step: func(doc *document) error {
			doc.makeWay(ended)
			return nil
		}},
		next: &change{queue: next.Group, name: next.Name, before: next, step: func(doc *document) error {
			return doc.takePlace(old.Dependents)
		}},
	}
}

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
	w := &writing{Driver: s.Driver, changes: []*change{s.ended, s.next}}
	for _, c := range w.changes {
		c.state = known
	}
	statements := statementsOf(w.prepare())
	if len(statements) != 2 {
		return swapMoved, errors.Join(s.ended.err, s.next.err)
	}
	send := s.sendStatements
	if s.isReplica {
		send = s.sendTransaction
	}
	a, err := send(ctx, statements)
	switch {
	case err == nil && len(a.refused) > 0 && isConflict(mongo.WriteException{WriteErrors: a.refused}):
		return swapConflict, nil
	case err == nil && len(a.refused) > 0 && a.n == 1 && !s.isReplica:
		return swapMoved, nil // the first statement was made
	case err == nil && len(a.refused) > 0:
		return swapRefused, nil
	case err == nil && a.unacknowledged != nil:
		return swapUnknown, a.unacknowledged
	case err == nil && a.n != 2:
		return swapMoved, nil
	case err == nil:
		s.ended.land(s.ended.lastTry().doc)
		s.next.land(s.next.lastTry().doc)
		return swapped, nil
	case isTimedOut(err):
		return swapBlocked, nil //nolint:nilerr // It is the outcome.
	case isConflict(err), hasLabel(err, labelTransient) && !hasLabel(err, labelUnknownCommit):
		return swapConflict, nil
	default:
		return swapUnknown, err
	}
}

// sendStatements sends the statements of a swap to a standalone server. If the attempt
// before has changed, the first one does nothing, and the second is refused because of the
// job's ID.
func (s *swap) sendStatements(ctx context.Context, statements []bson.Raw) (*answer, error) {
	return s.send(ctx, updating, statements, true, singleLimit)
}

// sendTransaction sends the statements of a swap in a transaction.
func (s *swap) sendTransaction(ctx context.Context, statements []bson.Raw) (*answer, error) {
	if err := s.session.StartTransaction(options.Transaction().SetWriteConcern(writeconcern.Majority())); err != nil {
		return nil, fmt.Errorf("starting a transaction: %w", err)
	}
	a, err := s.send(mongo.NewSessionContext(ctx, s.session), updating, statements, true, singleLimit) //nolint:contextcheck // It inherits it.
	if err != nil || len(a.refused) > 0 || a.n != len(statements) {
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

// abortTimeout bounds the wait for an aborted transaction. The server aborts it by
// itself eventually.
const abortTimeout = time.Second

// endSession ends a session and aborts its transaction if it was not committed.
func endSession(ctx context.Context, session mongo.Session) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	session.EndSession(ending)
}
