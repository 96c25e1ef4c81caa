package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/sleep"
)

// uncommitted holds the documents that this process put in callers' transactions, so that a drain waits until these
// have ended. The last transaction of each session is kept: the ones before it have ended.
type uncommitted struct {
	jobs *mongo.Collection

	mu       sync.Mutex
	sessions map[string]*sessionPuts // by the ID of the session
}

// sessionPuts are the documents that were put in the last transaction of a session.
type sessionPuts struct {
	transaction int64
	last        time.Time
	ids         map[string]string // one _id of each queue
	awaited     map[key]bool      // the jobs that documents wait for
}

const (
	// sessionTime is longer than a session lives on the server after its last command, and a transaction with it.
	sessionTime = time.Hour
	// transactionPoll is how often a drain checks whether transactions have ended.
	transactionPoll = 50 * time.Millisecond
)

// add adds a document that is about to be put, or was stored. The one of a queue that was stored last is kept.
func (u *uncommitted) add(tx mongo.Session, queue, id string, isStored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	session, number := string(tx.ID()), numberOf(tx)
	puts := u.sessions[session]
	if puts == nil || puts.transaction != number {
		for other, old := range u.sessions {
			if time.Since(old.last) > sessionTime {
				delete(u.sessions, other)
			}
		}
		if u.sessions == nil {
			u.sessions = map[string]*sessionPuts{}
		}
		puts = &sessionPuts{transaction: number, ids: map[string]string{}}
		u.sessions[session] = puts
	}
	puts.last = time.Now()
	if _, known := puts.ids[queue]; !known || isStored {
		puts.ids[queue] = id
	}
}

// addEdges adds the jobs that the document waits for that was added last.
func (u *uncommitted) addEdges(tx mongo.Session, queue string, jobs []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	puts := u.sessions[string(tx.ID())]
	if puts == nil {
		return // the transaction has ended meanwhile
	}
	if puts.awaited == nil {
		puts.awaited = map[key]bool{}
	}
	for _, job := range jobs {
		puts.awaited[key{queue, job}] = true
	}
}

// awaits reports whether a transaction has put documents that wait for a job.
func (u *uncommitted) awaits(tx mongo.Session, job key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	puts := u.sessions[string(tx.ID())]
	return puts != nil && puts.transaction == numberOf(tx) && puts.awaited[job]
}

// numberOf returns the number of a transaction in its session.
func numberOf(tx mongo.Session) int64 {
	return tx.(mongo.XSession).ClientSession().TxnNumber //nolint:staticcheck // There is no other way to know it.
}

// of returns one document of each transaction that put some into a queue, or into any queue if it is nil.
func (u *uncommitted) of(queue *string) (ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, puts := range u.sessions {
		for of, id := range puts.ids {
			if queue == nil || of == *queue {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// remove removes documents whose transactions have ended.
func (u *uncommitted) remove(ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for session, puts := range u.sessions {
		for queue, id := range puts.ids {
			if slices.Contains(ids, id) {
				delete(puts.ids, queue)
			}
		}
		if len(puts.ids) == 0 {
			delete(u.sessions, session)
		}
	}
}

// holds reports whether there may be open transactions that put documents into a queue.
func (u *uncommitted) holds(queue string) bool { return len(u.of(&queue)) > 0 }

// await waits until the transactions have ended that put documents into a queue.
func (u *uncommitted) await(ctx context.Context, queue string) error {
	for {
		open, err := u.open(ctx, &queue)
		if err == nil && !open {
			return nil
		}
		if sleep.For(ctx, transactionPoll) != nil {
			return errors.Join(fmt.Errorf("waiting for transactions that put jobs into queue %q to end: %w", queue, ctx.Err()), err)
		}
	}
}

// open reports whether transactions have not ended that put documents into a queue, or into any queue if it is nil. The
// _id of a document that a transaction has put is a conflict for another transaction until then.
func (u *uncommitted) open(ctx context.Context, queue *string) (open bool, err error) {
	ids := u.of(queue)
	if len(ids) == 0 {
		return false, nil
	}
	stored, err := u.jobs.Distinct(ctx, "_id", field("_id", field("$in", ids)))
	if err != nil {
		return true, fmt.Errorf("reading whether transactions have ended: %w", err)
	}
	var left []any
	for _, id := range ids {
		if !slices.Contains(stored, any(id)) {
			left = append(left, field("_id", id))
		}
	}
	err = u.probe(ctx, left)
	switch {
	case err == nil:
		u.remove(ids)
		return false, nil
	case isConflict(err) || mongo.IsDuplicateKeyError(err): // one of the others was just committed
		return true, nil
	default:
		return true, fmt.Errorf("checking whether transactions have ended: %w", err)
	}
}

// probe inserts documents in a transaction, and aborts it.
func (u *uncommitted) probe(ctx context.Context, docs []any) error {
	if len(docs) == 0 {
		return nil
	}
	session, err := u.jobs.Database().Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	err = session.StartTransaction()
	if err != nil {
		return err
	}
	return mongo.WithSession(ctx, session, func(ctx mongo.SessionContext) error { //nolint:contextcheck // It inherits it.
		_, failure := u.jobs.InsertMany(ctx, docs)
		return errors.Join(failure, session.AbortTransaction(ctx))
	})
}
