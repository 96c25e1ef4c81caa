package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
)

// transaction is a transaction of the caller: a pgx.Tx or a *sql.Tx.
type transaction struct{ tx any }

// WithTx returns a context with which Insert and Complete write in a transaction of the caller:
// records are added, or attempts end, when it is committed, together with its other changes, and
// not at all if it is rolled back. The transaction must be on the database of the driver's schema;
// otherwise these calls return an error. After an error of one of them the caller must roll back.
//
// While the transaction is open, records in it that take scopes or depend on other jobs block
// other changes of their queue, but not claims, and not the ends of jobs without scopes and
// dependents. It should be short: after a second, the queue continues with the jobs that the transaction
// does not block. A running job on which a record of it depends loses its lease if the transaction
// stays open until the lease is over.
//
// Other calls do not use the transaction.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// WithSQLTx is WithTx for a transaction of database/sql. Its handle must be of the package
// github.com/jackc/pgx/v5/stdlib (the driver named "pgx").
func WithSQLTx(ctx context.Context, tx *sql.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// callersTransaction returns the transaction that a context carries; nil if it carries none. searches is true for a
// call that searches jobs in it. The server then plans its statements with indexes: the caller's connection keeps
// plans, and those that read all of a small table would read all jobs of a burst. The notification at the end of the
// call ends that.
func (d *Driver) callersTransaction(ctx context.Context, searches bool) (querier, error) {
	carried, found, err := driver.TransactionOf[transaction](ctx)
	if err != nil || !found {
		return nil, err
	}
	var on querier
	switch tx := carried.tx.(type) {
	case pgx.Tx:
		on = pgxQuerier{tx}
	case *sql.Tx:
		if tx != nil {
			on = sqlQuerier{tx}
		}
	}
	if on == nil {
		return nil, errors.New("the transaction is nil")
	}
	theirs, isolation, err := d.identity(ctx, on, searches && !d.opts.PollOnly)
	if err != nil {
		if usesSQL, ok := on.(sqlQuerier); ok && usesSQL.isOfAnotherDriver(ctx, err) {
			return nil, fmt.Errorf("%w: it must be one of github.com/jackc/pgx/v5/stdlib: %w", driver.ErrForeignTransaction, err)
		}
		return nil, fmt.Errorf("asking for its database: %w", err)
	}
	ours, err := d.ownIdentity(ctx, theirs)
	if err != nil {
		return nil, fmt.Errorf("asking for the driver's database: %w", err)
	}
	if theirs != ours {
		return nil, fmt.Errorf("the transaction is on another database: it must be on %s, and is on %s: %w", ours.database, theirs.database, driver.ErrForeignTransaction)
	}
	if isolation != readCommitted {
		return snapshotQuerier{on}, nil
	}
	return on, nil
}

// snapshotQuerier runs statements in a transaction that does not see what others commit after it has begun.
type snapshotQuerier struct{ querier }

// identity identifies a database and the table of the driver's jobs in it. Databases that were
// copied from each other differ only in the process that runs the transaction.
type identity struct {
	database string
	table    int64
	started  int64
}

// identity also returns the isolation level of the transaction. If usesIndexes is true, plans use indexes from then on
// until the statement notifyIn.
func (d *Driver) identity(ctx context.Context, on querier, usesIndexes bool) (id identity, isolation string, err error) {
	err = on.query(ctx, `SELECT current_database()::text, coalesce(to_regclass($1), 0)::oid::bigint,
			(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, current_setting('transaction_isolation'),
			CASE WHEN $2::boolean THEN set_config('amboy.enable_seqscan', current_setting('enable_seqscan'), true)
				|| set_config('enable_seqscan', 'off', true) END`,
		func(r *row) error {
			id = identity{database: fmt.Sprintf("%q", r.text()), table: r.integer(), started: r.integer()}
			isolation = r.text()
			return nil
		}, d.inSchema("{s}.jobs"), usesIndexes)
	return id, isolation, err
}

// ownIdentity returns the identity of the driver's database. The server may have been restarted
// since it was read, so it is read again if it is not the expected one. Otherwise no connection is
// used: callers whose transactions hold all connections of the pool would wait for each other.
func (d *Driver) ownIdentity(ctx context.Context, expected identity) (identity, error) {
	if known := d.known.Load(); known != nil && *known == expected {
		return expected, nil
	}
	return d.readIdentity(ctx)
}

// readIdentity reads the identity of the driver's database. If that has changed, another server may have
// taken over, which may lack the last queues and lines, and in which jobs may be due or expire again.
func (d *Driver) readIdentity(ctx context.Context) (identity, error) {
	id, _, err := d.identity(ctx, d.reader(), false)
	if err != nil {
		return id, err
	}
	if last := d.known.Swap(&id); last != nil && *last != id {
		d.forgetIDs()
		d.lower(anyTime)
	}
	return id, nil
}
