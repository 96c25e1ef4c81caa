package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// changes is a transaction in which the records of one queue are changed one by one. It holds
// the lock of that queue, so only one exists at a time. Claims, inserts, and ends of records
// without scopes and dependents run concurrently with it.
type changes struct {
	ctx context.Context
	on  querier
	d   *Driver
	// of is the queue, or noQueue.
	of int32
	// now is the time when the lock was taken.
	now int64
	// examined is the number of waiting records that were examined because scopes were freed, and
	// edgesEnded the number of edges that were ended. Both are bounded (see leftovers.go).
	examined, edgesEnded int
	// moved counts the records that changed places and are not tallied yet.
	moved map[tally]int
	// written are the times of the records that were added, wait for their time, or may expire again. The transaction may
	// be committed after them.
	written moments
	scopes  knownScopes
	// found are records by name that the changes of some items need.
	found map[string]*job
	// numbers are arrival numbers for new records, and insertion is a statement that is queued and can take more of them;
	// it may be nil.
	numbers   []int64
	insertion *insertion
	// queued are the statements that are sent with the next query, and unresolved the jobs read by them.
	queued     []queued
	unresolved []*job
}

// tally counts the records of a queue that moved from one place to another.
type tally struct {
	queue    int32
	was, now table.Place
}

// The places of records in tallies, besides those of records in the table.
const (
	none table.Place = -1           // not inserted yet
	gone table.Place = table.Places // removed or deleted
)

// count records that a record moved from one place to another.
func (c *changes) count(queue int32, was, now table.Place) {
	if was == now {
		return
	}
	if c.moved == nil {
		c.moved = map[tally]int{}
	}
	c.moved[tally{queue, was, now}]++
}

// flush writes the scopes, the tallies and what is queued.
func (c *changes) flush() error {
	c.writeScopes()
	c.tally()
	return c.send()
}

// tally queues the tallies.
func (c *changes) tally() {
	if len(c.moved) > 0 {
		var queues []int32
		var was, now []pgtype.Int2
		var n []int64
		for t, count := range c.moved {
			queues, n = append(queues, t.queue), append(n, int64(count))
			was = append(was, pgtype.Int2{Int16: int16(t.was), Valid: t.was != none})
			now = append(now, pgtype.Int2{Int16: int16(t.now), Valid: true})
		}
		c.moved = nil
		c.exec(addTallies, queues, was, now, n)
		c.d.floors.tallied(queues...)
	}
}

// exec queues a statement whose result does not matter. Most changes are several such statements, and the
// lock of the queue is held meanwhile, so they share a round trip.
func (c *changes) exec(s statement, args ...any) { c.queue(s, nil, args...) }

// queue is exec for a statement whose number of changed rows is checked.
func (c *changes) queue(s statement, check func(rows int64) error, args ...any) {
	c.queued = append(c.queued, queued{text: c.d.texts[s], args: args, check: check})
}

// execNow runs a statement, and returns the number of rows that it has changed.
func (c *changes) execNow(s statement, args ...any) (changed int64, err error) {
	c.queue(s, func(rows int64) error {
		changed = rows
		return nil
	}, args...)
	err = c.send()
	return changed, err
}

func (c *changes) query(s statement, each func(*row) error, args ...any) error {
	if len(c.queued) > 0 {
		c.ask(s, each, args...)
		return c.send()
	}
	err := c.on.query(c.ctx, c.d.texts[s], each, args...)
	if err == nil {
		err = c.resolve()
	}
	return err
}

// ask queues a query. each is called when it is sent.
func (c *changes) ask(s statement, each func(*row) error, args ...any) {
	c.queued = append(c.queued, queued{text: c.d.texts[s], args: args, each: each})
}

// readJob reads a job.
func (c *changes) readJob(r *row) *job {
	j := &job{}
	j.read(r)
	c.unresolved = append(c.unresolved, j)
	return j
}

// send sends what is queued.
func (c *changes) send() error {
	all := c.queued
	c.queued, c.insertion = nil, nil
	for i := range all {
		if all[i].complete != nil {
			all[i].complete(&all[i])
		}
	}
	err := c.on.send(c.ctx, all)
	if err == nil {
		err = c.resolve()
	}
	return err
}

// sendIfMore sends what is queued if that is more than so many statements.
func (c *changes) sendIfMore(queued int) error {
	if len(c.queued) <= queued {
		return nil
	}
	return c.send()
}

// resolve sets the queue names of the jobs that were read.
func (c *changes) resolve() error {
	read := c.unresolved
	c.unresolved = nil
	if len(read) == 0 {
		return nil
	}
	return c.d.resolve(c.ctx, c.on, read)
}

// one runs a statement that returns at most one row, and reports whether it returned one.
func (c *changes) one(s statement, scan func(*row), args ...any) (found bool, err error) {
	err = c.query(s, func(r *row) error {
		found = true
		scan(r)
		return nil
	}, args...)
	return found, err
}

// job finds a row; nil if it does not exist.
func (c *changes) job(s statement, args ...any) (*job, error) {
	jobs, err := c.jobs(s, args...)
	if len(jobs) == 0 || err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// named finds a record by its name and locks it; nil if it does not exist.
func (c *changes) named(queue queueKey, name string) (*job, error) {
	if j := c.found[name]; j != nil {
		delete(c.found, name)
		return j, nil
	}
	return c.job(findByName, queue.id, name, idOfName(queue.name, name))
}

// latest returns the number of the latest attempt of a job; 0 if there is none. It does not lock it.
func (c *changes) latest(queue int32, id string) (seq int64, err error) {
	_, err = c.one(findLatest, func(r *row) { seq = r.integer() }, queue, id)
	return seq, err
}

func (c *changes) jobs(s statement, args ...any) (jobs []*job, err error) {
	err = c.query(s, func(r *row) error {
		jobs = append(jobs, c.readJob(r))
		return nil
	}, args...)
	return jobs, err
}

func (c *changes) records(s statement, args ...any) (records []*stored, err error) {
	err = c.query(s, readInto(&records), args...)
	if err == nil {
		err = c.d.resolve(c.ctx, c.on, jobsOf(records))
	}
	return records, err
}

// records runs a statement that returns records.
func (d *Driver) records(ctx context.Context, on querier, text string, args ...any) (records []*stored, err error) {
	err = on.query(ctx, text, readInto(&records), args...)
	if err == nil {
		err = d.resolve(ctx, on, jobsOf(records))
	}
	return records, err
}

// readInto returns a function that reads records.
func readInto(records *[]*stored) func(*row) error {
	return func(r *row) error {
		s := &stored{}
		s.read(r)
		*records = append(*records, s)
		return nil
	}
}

func jobsOf(records []*stored) []*job {
	jobs := make([]*job, len(records))
	for i, s := range records {
		jobs[i] = &s.job
	}
	return jobs
}

const readCommitted = pgconnect.ReadCommitted

// lock acquires the lock of a queue until the end of the caller's transaction.
func (c *changes) lock(queue int32) error {
	c.of = queue
	var isolation string
	_, err := c.one(lockQueueOfCaller, func(r *row) { _, isolation = r.text(), r.text() }, c.d.lockKey(lockOfQueue, queue))
	if err == nil && isolation != readCommitted {
		err = fmt.Errorf("jobs with scopes or dependencies need a transaction with the isolation level %s (is %s)", readCommitted, isolation)
	}
	c.now = time.Now().UnixNano()
	return err
}

// retries is the maximum number of tries of a transaction that the server rolls back because of
// another one.
const retries = 20

// transact runs a change in a transaction of its own. If the server rolls it back because of
// another transaction, it is run again. The error wraps driver.ErrOutcomeUnknown if the change
// may have been made.
//
// It holds the lock of a queue, or no lock if queue is noQueue. It waits for that lock without a bound. A row may be in
// an open transaction of a caller that ends its job, for which the queue must not wait: while such a row is locked, the
// lock of the queue is given up from time to time.
func (d *Driver) transact(ctx context.Context, queue int32, run func(*changes) error) error {
	for {
		err := d.transactWithin(ctx, endless, queue, run)
		if queue == noQueue || pgconnect.CodeOf(err) != pgconnect.CodeLockNotAvailable {
			return err
		}
		if ended := sleep.For(ctx, lockedPause); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// transactWithin is transact with limited patience.
func (d *Driver) transactWithin(ctx context.Context, p patience, queue int32, run func(*changes) error) error {
	return d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		for wasGone := false; ; {
			mayBeDone, err = d.transactOnce(ctx, p, queue, run)
			if isLineGone(err) && !wasGone { // the change finds or adds the line again
				wasGone = true
				d.forgetIDs()
				continue
			}
			var missing *missingLineError
			if !errors.As(err, &missing) {
				return mayBeDone, err
			}
			if _, err = d.ensureLine(ctx, d.reader(), missing.line); err != nil {
				return false, err
			}
		}
	})
}

// longestLockWait is the longest wait for a lock of transactWithPauses.
const longestLockWait = 2 * time.Second

// transactWithPauses is transact for a change that locks what inserts into other queues share, or claims: these
// wait behind it while it waits for one of them, and an insert may be part of an open transaction. So it waits for
// a short time, longer each time, and lets them pass for as long.
func (d *Driver) transactWithPauses(ctx context.Context, queue int32, run func(*changes) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, longestLockWait) {
		err := d.transactWithin(ctx, patience(fmt.Sprintf("%dms", wait.Milliseconds())), queue, run)
		if pgconnect.CodeOf(err) != pgconnect.CodeLockNotAvailable {
			return err
		}
		if ended := sleep.For(ctx, wait); ended != nil {
			return ended
		}
	}
}

// noQueue is passed for no queue.
const noQueue int32 = -1

// suspendedLimit is how long the server waits for the next statement of a transaction before it ends
// that: the process may be suspended or its host unreachable, and it holds the lock of a queue. It is as
// long as most calls may take.
const suspendedLimit = "5s"

// rowPatience is how long a transaction that has the lock of a queue waits for a row. It is shorter than the
// time after which the server looks for a deadlock (deadlock_timeout) and ends one of the transactions: an open
// transaction that has the row may wait for the lock of the queue.
const rowPatience = "500ms"

// begin queues what begins a transaction, so that it shares the round trip of the first query.
func (c *changes) begin(p patience, queue int32) {
	c.of = queue
	settings := queued{text: p.settings() + ", set_config('idle_in_transaction_session_timeout', '" + suspendedLimit + "', true)"}
	if queue != noQueue { // The columns are evaluated from left to right.
		settings.text += ", pg_advisory_xact_lock($1)::text"
		settings.args = []any{c.d.lockKey(lockOfQueue, queue)}
		settings.each = func(*row) error {
			c.now = time.Now().UnixNano()
			return nil
		}
	}
	if queue != noQueue && p == endless {
		settings.text += ", set_config('lock_timeout', '" + rowPatience + "', true)"
	}
	c.queued = append(c.queued, queued{text: "BEGIN"}, settings)
}

// commit ends the transaction in the round trip of what is queued.
func (c *changes) commit() (mayBeDone bool, err error) {
	c.writeScopes()
	c.tally()
	isCommitted := false
	c.queued = append(c.queued, queued{text: "COMMIT", check: func(int64) error {
		isCommitted = true
		return nil
	}})
	err = c.send()
	if isCommitted { // A server that stops reports it after the commit.
		return false, nil
	}
	return isMaybeDone(err), err
}

// isMaybeDone reports whether a transaction may be committed although the call that ends it failed.
func isMaybeDone(err error) bool {
	return err != nil && !pgconnect.IsRefused(err) && !pgconn.SafeToRetry(err)
}

// retrying makes a change, again after a conflict. mayBeDone reports that a failed change may
// have been made.
func (d *Driver) retrying(ctx context.Context, change func(context.Context) (mayBeDone bool, err error)) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for try := 1; ; try++ {
		mayBeDone, err := change(ctx)
		if err == nil {
			return nil
		}
		if (isConflict(err) || isUnsent(err) && ctx.Err() == nil) && try < retries {
			err = sleep.For(ctx, time.Duration(rand.Int64N(int64(try)*int64(2*time.Millisecond))))
			if err != nil {
				return err
			}
			continue
		}
		return d.failed(ctx, err, mayBeDone)
	}
}

func (d *Driver) transactOnce(ctx context.Context, p patience, queue int32, run func(*changes) error) (mayBeDone bool, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	c := &changes{ctx: ctx, on: pgxQuerier{conn}, d: d, now: time.Now().UnixNano()}
	c.begin(p, queue)
	if d.mustReplan(conn.Conn()) {
		c.queued = append(c.queued, queued{text: discardPlans})
	}
	err = attempt(c, run)
	if err == nil {
		// The connection is in order. The change is decided by the context's state now, and
		// not after the commit was sent.
		err = ctx.Err()
	}
	if err == nil {
		mayBeDone, err = c.commit()
	}
	if conn.Conn().PgConn().TxStatus() != noTransaction {
		rollback(ctx, conn)
	}
	if err == nil || mayBeDone {
		d.noteWritten(c.written)
	}
	if err == nil {
		d.followPool()
	}
	if mayBeDone {
		d.changed(driver.Anywhere)
	}
	return mayBeDone, err
}

// followPool is called after a change was made: if the server took none before, the pool may have moved to another one.
func (d *Driver) followPool() {
	if d.failover.HasArrived() {
		d.signals.move()
	}
}

// attempt runs a change. A panic becomes its error, so that the transaction is rolled back.
func attempt(c *changes, run func(*changes) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run(c)
}

// failed returns the error of a call whose change failed.
func (d *Driver) failed(ctx context.Context, err error, mayBeDone bool) error {
	switch {
	case mayBeDone:
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, errors.Join(ctx.Err(), err))
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case d.isClosed():
		return driver.ErrClosed
	default:
		if pgconnect.CodeOf(err) == pgconnect.CodeReadOnly {
			d.failover.Leave(d.pool)
		}
		return d.explain(err)
	}
}

// partly wraps the error of a call that has changed some records in transactions before the
// failed one.
func partly(doing string, done int, err error) error {
	if done == 0 || errors.Is(err, driver.ErrOutcomeUnknown) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s, after %d: %w: %w", doing, done, driver.ErrOutcomeUnknown, err)
}

// isConflict reports whether the server rolled a transaction back because of another one, which took
// the same key, for example, or because this process was suspended.
func isConflict(err error) bool {
	switch pgconnect.CodeOf(err) {
	case pgconnect.CodeSerializationFailure, pgconnect.CodeDeadlock, pgconnect.CodeUniqueViolation, pgconnect.CodeSuspended:
		return true
	default:
		return false
	}
}

// isUnsent reports whether a connection was broken before anything was sent, as all connections
// of the pool are after a restart of the server.
func isUnsent(err error) bool {
	var unreachable *pgconn.ConnectError
	return pgconn.SafeToRetry(err) && !errors.As(err, &unreachable)
}

// explain adds to an error what an operator can do about it.
func (d *Driver) explain(err error) error {
	switch pgconnect.CodeOf(err) {
	case pgconnect.CodeReadOnly:
		return fmt.Errorf("the server takes no writes: it is a standby, or default_transaction_read_only is on; connect to the primary (target_session_attrs=read-write): %w", err)
	case pgconnect.CodeNoPrivilege:
		if d.opts.SkipMigrations {
			return fmt.Errorf("the role lacks a privilege; grant it USAGE on the schema, %s: %w", neededPrivileges, err)
		}
		return fmt.Errorf("the role lacks a privilege; grant it CREATE on the database, or make the schema and grant it USAGE and CREATE on that, and all on its tables and sequences, or connect as their owner: %w", err)
	case pgconnect.CodeNoStatement, pgconnect.CodeStatementExists:
		return fmt.Errorf("%s: %w", pgconnect.HowToPool, err)
	case pgconnect.CodeUndefinedTable:
		return fmt.Errorf("a table of the schema is missing; run its migrations: %w", err)
	case pgconnect.CodeDiskFull:
		return fmt.Errorf("%w: %w", amboy.ErrStoreFull, err)
	default:
		return err
	}
}
