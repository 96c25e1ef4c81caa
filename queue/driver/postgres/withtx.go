package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
)

// transaction is one of a caller, a pgx.Tx or a *sql.Tx.
type transaction struct{ tx any }

// WithTx returns a context with which Insert and Complete write in a transaction of the
// caller, so that records are added, or attempts end, when it is committed, with whatever else
// it changes, and not at all when it is rolled back. The transaction must be on the database
// of the driver's schema; these calls return an error for any other. After an error of one of
// them the caller must roll back.
//
// While it is open, records that take scopes or depend on other jobs keep other changes of
// their queue waiting, though no claims and no ends of jobs without either. It should be
// short.
//
// Other calls do not use the transaction.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// WithSQLTx is WithTx for a transaction of database/sql. Its handle must be one of the package
// github.com/jackc/pgx/v5/stdlib (the driver named "pgx").
func WithSQLTx(ctx context.Context, tx *sql.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// callersTransaction returns the transaction that a context carries; nil if it has none.
func (d *Driver) callersTransaction(ctx context.Context) (querier, error) {
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
	theirs, err := d.identity(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("asking for its database: %w", err)
	}
	ours, err := d.ownIdentity(ctx, theirs)
	if err != nil {
		return nil, fmt.Errorf("asking for the driver's database: %w", err)
	}
	if theirs != ours {
		return nil, fmt.Errorf("the transaction is on another database: it must be on %s, and is on %s: %w", ours.database, theirs.database, driver.ErrForeignTransaction)
	}
	return on, nil
}

// identity says which database it is, and which table the driver's jobs are in: databases
// that were copied from each other differ in the process that runs the transaction alone.
type identity struct {
	database string
	table    int64
	started  int64
}

func (d *Driver) identity(ctx context.Context, on querier) (id identity, err error) {
	err = on.query(ctx, `SELECT current_database()::text, coalesce(to_regclass($1), 0)::oid::bigint,
			(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`,
		func(r *row) error {
			id = identity{database: fmt.Sprintf("%q", r.text()), table: r.integer(), started: r.integer()}
			return nil
		}, d.inSchema("{s}.jobs"))
	return id, err
}

// ownIdentity is that of the driver's database. The server may have been restarted since it
// was read, so it is read again if it is not what is expected. Otherwise it takes no
// connection: callers whose transactions have all of the pool would wait for each other.
func (d *Driver) ownIdentity(ctx context.Context, expected identity) (identity, error) {
	if known := d.known.Load(); known != nil && *known == expected {
		return expected, nil
	}
	id, err := d.identity(ctx, d.reader())
	if err == nil {
		d.known.Store(&id)
	}
	return id, err
}
