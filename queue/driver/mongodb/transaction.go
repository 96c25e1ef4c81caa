package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver"
)

// transaction is one of a caller, as others see it.
type transaction struct{ mongo.Session }

// ShowTransaction returns a context whose transaction is seen by drivers of other stores, so
// that they refuse it, if ctx carries a session that is in one.
func ShowTransaction(ctx context.Context) context.Context {
	if session := transactionOf(ctx); session != nil {
		return driver.WithTransaction(ctx, transaction{session})
	}
	return ctx
}

// transactionOf returns the session that a context carries if it is in a transaction, and
// nil otherwise.
func transactionOf(ctx context.Context) mongo.Session {
	session := mongo.SessionFromContext(ctx)
	x, ok := session.(mongo.XSession) //nolint:staticcheck // There is no other way to know whether a transaction runs.
	if !ok || !x.ClientSession().TransactionRunning() {
		return nil
	}
	return session
}

// plain returns a context without the session that ctx may carry, for calls that must not
// be part of the caller's transaction.
func plain(ctx context.Context) context.Context {
	if mongo.SessionFromContext(ctx) == nil {
		return ctx
	}
	return mongo.NewSessionContext(ctx, nil)
}

// session returns a context that carries the caller's transaction, if there is one.
func (b *batch) session(ctx context.Context) context.Context {
	if b.tx == nil {
		return ctx
	}
	return mongo.NewSessionContext(ctx, b.tx)
}

// storeInTransaction inserts documents as part of the caller's transaction. It checks for
// conflicts first, because a refusal by an index would end the transaction. The sweep,
// which the change stream wakes after the commit, does what follows from the documents.
func (b *batch) storeInTransaction(ctx context.Context, docs []*newDocument) error {
	for _, n := range docs {
		if err := b.checkConflicts(ctx, n); err != nil {
			return fmt.Errorf("checking whether record %q can be stored: %w", n.Name, err)
		}
		if n.refusal != nil {
			continue
		}
		raws, _ := b.encodeAll([]*newDocument{n})
		if len(raws) == 0 {
			continue
		}
		b.barrier.puts.add(b.tx, n.Group, n.id, false)
		if _, err := b.jobs.InsertOne(b.session(ctx), raws[0]); err != nil {
			var failure mongo.WriteException
			if errors.As(err, &failure) && len(failure.WriteErrors) == 1 && refusalOf(failure.WriteErrors[0]) != nil {
				return refusalOf(failure.WriteErrors[0]).errorOf(n.document)
			}
			return err
		}
		n.stored = true
		b.barrier.puts.add(b.tx, n.Group, n.id, true)
		if len(n.Line.Edges) > 0 {
			b.transacted.add(n.id)
			b.barrier.puts.addEdges(b.tx, n.Group, n.Line.Edges)
		}
	}
	return nil
}

// checkConflicts refuses a document if another one has its name, job ID, unique key or one
// of its scopes.
func (b *batch) checkConflicts(ctx context.Context, n *newDocument) error {
	rivals, err := b.findRivals(b.session(ctx), []*newDocument{n}, func(doc *document) {
		if doc.id == n.id && doc.Group != n.Group {
			n.id = aliasOf(n.Group, n.Name)
		}
	})
	if r := rivals[n]; err == nil && r != nil {
		n.refusal = r.errorOf(n.document)
	}
	return err
}
