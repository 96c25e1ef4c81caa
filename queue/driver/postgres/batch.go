package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// batch is several statements that are sent together as one transaction.
type batch struct {
	d    *Driver
	sent pgx.Batch
}

func (b *batch) exec(s statement, args ...any) {
	b.sent.Queue(b.d.texts[s], args...)
}

// plan makes the following statements use the indexes, in their order. Without it, the server
// chooses other plans if it has no statistics, or if one line has most of the jobs and there are
// many lines: its statistics describe the average line.
func (b *batch) plan() { b.planWithin(endless) }

// planWithin is plan for a transaction with limited patience.
func (b *batch) planWithin(p patience) { b.sent.Queue(p.settings()) }

// planClaim is plan for a claim without the lock of a queue.
func (b *batch) planClaim() { b.exec(lockClaims, b.d.lockKey(lockOfClaims, 0)) }

// planSettings apply until the end of the transaction. A prepared statement is planned once: to
// plan a claim takes longer than to execute it, and the plan does not depend on the arguments.
const planSettings = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_sort', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
	set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

func (b *batch) query(s statement, each func(*row) error, args ...any) {
	b.sent.Queue(b.d.texts[s], args...).Query(func(rows pgx.Rows) error { return readRows(rows, each) })
}

// begin begins a transaction, so that commit can end it before the last statement.
func (b *batch) begin() { b.sent.Queue("BEGIN") }

// commit ends a transaction. It sets isDone, even if a statement after it fails.
func (b *batch) commit(isDone *bool) {
	b.sent.Queue("COMMIT").Exec(func(pgconn.CommandTag) error {
		*isDone = true
		return nil
	})
}

// pipeline sends several statements in one round trip, as one transaction unless they contain others.
func (d *Driver) pipeline(ctx context.Context, fill func(*batch)) (mayBeDone bool, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	err = ctx.Err()
	if err != nil {
		return false, err
	}
	b := &batch{d: d}
	if d.mustReplan(conn.Conn()) {
		b.sent.Queue(discardPlans)
	}
	fill(b)
	err = conn.SendBatch(ctx, &b.sent).Close()
	if conn.Conn().PgConn().TxStatus() == failedTransaction {
		rollback(ctx, conn)
	}
	return isMaybeDone(err), err
}

// The status of a connection after an error between begin and commit, and outside a transaction.
const (
	failedTransaction = 'E'
	noTransaction     = 'I'
)

// rollback ends a transaction that was not committed. If it can't, the pool closes the connection.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), pgconnect.RollbackTime)
	defer cancel()
	_, _ = conn.Exec(bounded, "ROLLBACK")
}

// replanAfter is how many jobs may arrive before a connection plans its prepared statements again, and
// replanInterval the minimum interval between that. If a table was small when a plan was made, it seemed cheap to
// read all of it, and the server keeps the plan until it has analyzed the table again, which can take a minute:
// meanwhile each call would read all jobs of a burst.
const (
	replanAfter    = 10_000
	replanInterval = 5 * time.Second
)

// discardPlans makes the server plan the prepared statements of a connection again when they are used.
const discardPlans = "DISCARD PLANS"

// planned is when a connection began to make plans, and the newest job at that time.
type planned struct {
	at     time.Time
	newest int64
}

// mustReplan reports whether the plans of a connection are old, and takes note that they are discarded.
func (d *Driver) mustReplan(conn *pgx.Conn) bool {
	const key = "amboy.plans"
	data, newest := conn.PgConn().CustomData(), d.newest.Load()
	last, known := data[key].(planned)
	if d.opts.PollOnly || known && (newest-last.newest < replanAfter || time.Since(last.at) < d.replanInterval) {
		return false
	}
	data[key] = planned{time.Now(), newest}
	return known
}

// changeOnce makes a change with one statement.
func (d *Driver) changeOnce(ctx context.Context, s statement, args ...any) (rows int64, err error) {
	err = d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		rows, err = d.reader().exec(ctx, d.texts[s], args...)
		return mayHaveRun(err), err
	})
	return rows, err
}

// changeWithin makes a change with one statement, with limited patience. It returns what the statement
// returned; nothing if it was rolled back, even after its first rows were read.
func changeWithin[T any](ctx context.Context, d *Driver, p patience, s statement, read func(*row) T, args ...any) (changed []T, err error) {
	err = d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		changed = nil
		return d.pipeline(ctx, func(b *batch) {
			b.planWithin(p)
			b.query(s, func(r *row) error {
				changed = append(changed, read(r))
				return nil
			}, args...)
		})
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// readPlanned runs a read that must use the indexes.
func (d *Driver) readPlanned(ctx context.Context, s statement, each func(*row) error, args ...any) error {
	return d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		return d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.query(s, each, args...)
		})
	})
}

// mayHaveRun reports whether the statement of an error may have been executed.
func mayHaveRun(err error) bool {
	var unreachable *pgconn.ConnectError
	return err != nil && !pgconnect.IsRefused(err) && !pgconn.SafeToRetry(err) && !errors.As(err, &unreachable)
}
