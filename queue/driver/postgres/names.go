package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// queueKey is the name of a queue and its key in the store.
type queueKey struct {
	id   int32
	name string
}

// lineKey identifies a line by the properties of its jobs.
type lineKey struct {
	queue    int32
	priority int
	kind     string
	scoped   bool
}

// idOfName returns the job ID in the name of a record that can't be retried.
func idOfName(queue, name string) string {
	if queue == "" {
		return name
	}
	return strings.TrimPrefix(name, queue+".")
}

// idOfAttempt returns the job ID in a record's name: of an attempt if the name is one, otherwise
// of a record that can't be retried.
func idOfAttempt(queue, name string) (id string, isAttempt bool) {
	id = idOfName(queue, name)
	rest, found := strings.CutPrefix(id, "attempt-")
	if !found {
		return id, false
	}
	number, of, found := strings.Cut(rest, ".")
	if !found || number == "" || strings.Trim(number, "0123456789") != "" {
		return id, false
	}
	return of, true
}

// The kinds of advisory locks. All of them end with their transaction.
const (
	// lockOfQueue is held while records of a queue are changed one by one.
	lockOfQueue = "queue"
	// lockOfInserts is shared by the inserts into a queue. It is taken exclusively to raise
	// the floor of a line, which must not pass a record that is being inserted.
	lockOfInserts = "inserts"
	// lockOfPromotions is the same for the promotion of due records.
	lockOfPromotions = "promotions"
	// lockOfClaims is shared by the claims that read the limits of queues before they take jobs. It is taken
	// exclusively to mark the running jobs of a queue that gets its first limit.
	lockOfClaims = "claims"
	// lockOfSchema is held while a schema is migrated.
	lockOfSchema = "schema"
)

// insertLocks is the number of locks that all queues share for inserts, so that an insert into
// many queues does not fill the server's lock table.
const insertLocks = 32

// lockKey returns the key of a lock. Each schema of a database has its own keys.
func (d *Driver) lockKey(kind string, queue int32) int64 {
	if kind == lockOfInserts {
		queue %= insertLocks
	}
	return d.lockBase[kind] | int64(uint32(queue)) //nolint:gosec // The lower half of the key.
}

func lockBase(schema, kind string) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "amboy %s %q", kind, schema))
	return int64(binary.BigEndian.Uint32(sum[:])) << 32
}

// findQueue returns the key of a queue; found is false if the queue does not exist.
func (d *Driver) findQueue(ctx context.Context, on querier, name string) (key queueKey, found bool, err error) {
	if id, ok := d.queueIDs.Load(name); ok {
		return queueKey{id.(int32), name}, true, nil
	}
	if !isStorable(name) {
		return queueKey{}, false, nil
	}
	err = on.query(ctx, d.texts[findQueue], func(r *row) error {
		key, found = queueKey{r.key(), name}, true
		return nil
	}, name)
	if err == nil && found {
		d.queueIDs.Store(name, key.id)
		d.queueNames.Store(key.id, name)
	}
	return key, found, err
}

// ensureQueue returns the key of a queue, which it adds if it does not exist. It reads in the
// caller's transaction first, because such transactions may hold all connections of the pool. It
// adds the queue outside any transaction, so that other calls that add the same queue do not
// wait for the transaction.
func (d *Driver) ensureQueue(ctx context.Context, on querier, name string) (queueKey, error) {
	key, found, err := d.findQueue(ctx, on, name)
	if found || err != nil {
		return key, err
	}
	if !isStorable(name) {
		return queueKey{}, &amboy.InvalidJobError{Field: "queue", Value: name, Rule: storableRule}
	}
	err = d.outside(ctx, on, func(on querier) (err error) {
		for err == nil && !found {
			_, err = on.exec(ctx, d.texts[insertQueue], name)
			if err == nil {
				key, found, err = d.findQueue(ctx, on, name)
			}
		}
		return err
	})
	if err != nil {
		return queueKey{}, fmt.Errorf("adding queue %q: %w", name, err)
	}
	return key, nil
}

// ensureLine returns the key of a line. It works like ensureQueue.
func (d *Driver) ensureLine(ctx context.Context, on querier, key lineKey) (int32, error) {
	id, found, err := d.findLine(ctx, on, key)
	if found || err != nil {
		return id, err
	}
	err = d.outside(ctx, on, func(on querier) (err error) {
		for err == nil && !found {
			_, err = on.exec(ctx, d.texts[insertLine], key.args()...)
			if err == nil {
				id, found, err = d.findLine(ctx, on, key)
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("adding a line: %w", err)
	}
	return id, nil
}

// outside runs statements outside a transaction of the caller. They get a connection of their own: such
// transactions may hold all those of the pool, and would wait for each other.
func (d *Driver) outside(ctx context.Context, on querier, run func(querier) error) error {
	if pool, isPool := on.(poolQuerier); isPool {
		return run(pool)
	}
	conn, err := pgconnect.Connect(ctx, d.pool)
	if err != nil {
		return err
	}
	err = run(pgxQuerier{conn})
	_ = conn.Close(context.WithoutCancel(ctx)) // Each statement was a transaction.
	return err
}

// findLine returns the key of a line; found is false if the line does not exist.
func (d *Driver) findLine(ctx context.Context, on querier, key lineKey) (id int32, found bool, err error) {
	if known, ok := d.lineIDs.Load(key); ok {
		return known.(int32), true, nil
	}
	err = on.query(ctx, d.texts[findLine], func(r *row) error {
		id, found = r.key(), true
		return nil
	}, key.args()...)
	if err == nil && found {
		d.lineIDs.Store(key, id)
	}
	return id, found, err
}

// args returns the arguments of the statements findLine and insertLine.
func (k lineKey) args() []any { return []any{k.queue, k.priority, k.kind, k.scoped} }

// missingLineError undoes a change for which a line must be added first. Lines are added outside
// transactions, on a connection that waits for no lock: all connections of the pool may be waiting
// for the lock that this change holds.
type missingLineError struct{ line lineKey }

// Error names the line.
func (e *missingLineError) Error() string { return fmt.Sprintf("the line %+v does not exist", e.line) }

// lineOf returns the line of a job. If the job's kind is unknown, it is read from its current
// line. The error is a *missingLineError if the line does not exist.
func (c *changes) lineOf(j *job) (id int32, err error) {
	if j.kind == "" {
		if _, err = c.one(kindOfLine, func(r *row) { j.kind = r.text() }, max(j.line, -j.line)); err != nil {
			return 0, err
		}
	}
	id, found, err := c.d.findLine(c.ctx, c.on, j.lineKey())
	if err == nil && !found {
		err = &missingLineError{j.lineKey()}
	}
	return id, err
}

func (j *job) lineKey() lineKey {
	return lineKey{queue: j.queue, priority: j.Priority, kind: j.kind, scoped: len(j.Scopes) > 0}
}

// isLineGone reports whether the line of a job, which this process remembers, is gone from the store, as after a failover
// that lost the last commits.
func isLineGone(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == pgconnect.CodeNotNullViolation && refused.ColumnName == "line"
}

// forgetIDs forgets the queues and lines that this process remembers.
func (d *Driver) forgetIDs() {
	for _, known := range []*sync.Map{&d.queueIDs, &d.queueNames, &d.lineIDs, &d.alone} {
		known.Clear()
	}
	d.tops.clear()
}

// resolve sets the queue names of jobs.
func (d *Driver) resolve(ctx context.Context, on querier, jobs []*job) error {
	var unknown []int32
	for _, j := range jobs {
		if name, ok := d.queueNames.Load(j.queue); ok {
			j.in(name.(string))
		} else {
			unknown = append(unknown, j.queue)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	err := on.query(ctx, d.texts[readQueueNames], func(r *row) error {
		id, name := r.key(), r.text()
		d.queueIDs.Store(name, id)
		d.queueNames.Store(id, name)
		return nil
	}, unknown)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		name, ok := d.queueNames.Load(j.queue)
		if !ok {
			return fmt.Errorf("the queue of record %d is missing in the store", j.Seq)
		}
		j.in(name.(string))
	}
	return nil
}
