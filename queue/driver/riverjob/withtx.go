package riverjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
)

// transaction is a transaction of the caller.
type transaction struct{ tx pgx.Tx }

// WithTx returns a context with which Complete, and so job.CompleteIn, writes in a transaction of the caller: attempts
// end when it is committed, together with its other changes, and not at all if it is rolled back. The transaction must
// be on River's database; otherwise Complete returns an error. After any error the caller must roll back. Other calls
// do not use the transaction, and Insert refuses it.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// callersTransaction returns the transaction that a context carries; nil if it carries none.
func (d *Driver) callersTransaction(ctx context.Context) (pgx.Tx, error) {
	carried, found, err := driver.TransactionOf[transaction](ctx)
	switch {
	case err != nil || !found:
		return nil, err
	case carried.tx == nil:
		return nil, errors.New("the transaction is nil")
	}
	theirs, err := d.identityOf(ctx, carried.tx)
	if err != nil {
		return nil, fmt.Errorf("asking for its database: %w", err)
	}
	// The server may have been restarted since. Otherwise no connection is used: callers whose transactions hold
	// all connections of the pool would wait for each other.
	if *d.identity.Load() != theirs {
		err = d.readIdentity(ctx)
		if err != nil {
			return nil, err
		}
	}
	if ours := d.identity.Load(); *ours != theirs {
		return nil, fmt.Errorf("the transaction is on another database: it must be on %q, and is on %q: %w", ours.database, theirs.database, driver.ErrForeignTransaction)
	}
	return carried.tx, nil
}

// identity identifies River's table of jobs. Databases that were copied from each other differ only in the process
// that runs the transaction.
type identity struct {
	database string
	table    uint32
	started  time.Time
}

// readIdentity reads the identity of the driver's database.
func (d *Driver) readIdentity(ctx context.Context) error {
	id, err := d.identityOf(ctx, d.pool)
	if err != nil {
		return fmt.Errorf("asking for the driver's database: %w", err)
	}
	d.identity.Store(&id)
	return nil
}

func (d *Driver) identityOf(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (id identity, err error) {
	err = on.QueryRow(ctx, `SELECT current_database()::text, coalesce(to_regclass($1), 0)::oid, pg_postmaster_start_time()`, d.sql("{s}.river_job")).
		Scan(&id.database, &id.table, &id.started)
	return id, err
}
