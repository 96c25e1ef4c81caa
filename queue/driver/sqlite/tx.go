package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"

	"github.com/mongodb/amboy/queue/driver"
)

// transaction is a transaction of the caller.
type transaction struct{ *sql.Tx }

// WithTx returns a context with which Insert, Complete, Save and SetProgress write in a
// transaction of the caller: records are added or changed, or attempts end, when it is committed,
// together with its other changes, and not at all if it is rolled back. The transaction must be on a database handle
// that was opened for the driver's file with the driver "sqlite" of modernc.org/sqlite;
// otherwise these calls return an error. After an error the caller should roll back. The
// rules of SQLite apply: only one transaction writes at a time, so it should be short, and
// should acquire the right to write when it begins ("_txlock=immediate" in the name of the
// handle), and wait for it ("_pragma=busy_timeout(5000)"): else it fails while the driver, or
// another process, writes.
//
// Other calls do not use the transaction. While it is open nothing else is written, so a job that
// has one must make its calls with this context: what it does with another one waits for the
// transaction, and fails after ten seconds.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return driver.WithTransaction(ctx, transaction{tx})
}

// transactionOf returns the transaction that a context carries; nil if it carries none.
func transactionOf(ctx context.Context) (*sql.Tx, error) {
	tx, found, err := driver.TransactionOf[transaction](ctx)
	if found && tx.Tx == nil {
		err = errors.New("the transaction is nil")
	}
	return tx.Tx, err
}

// ownTransaction returns the open transaction on this file that a context carries; nil if it carries
// none, or that of another store.
func (d *Driver) ownTransaction(ctx context.Context) *sql.Tx {
	tx, err := transactionOf(ctx)
	if err != nil || tx == nil || d.checkTransaction(ctx, tx) != nil {
		return nil
	}
	return tx
}

// insertIn adds records in a transaction of the caller.
func (d *Driver) insertIn(ctx context.Context, tx *sql.Tx, some []*newRecord) error {
	return d.changeIn(ctx, tx, func(c *changes) error { return c.insertAll(some) })
}

// changeIn makes a change in a transaction of the caller.
func (d *Driver) changeIn(ctx context.Context, tx *sql.Tx, run func(*changes) error) error {
	if d.isClosed() {
		return driver.ErrClosed
	}
	if err := d.checkTransaction(ctx, tx); err != nil {
		return fmt.Errorf("writing in the caller's transaction: %w", err)
	}
	c := newChanges(&callersConnection{ctx: ctx, tx: tx}, nil)
	err := run(c)
	if err == nil {
		err = c.flush()
	}
	if err != nil {
		return fmt.Errorf("writing in the caller's transaction on %q, which should be rolled back: %w", d.path, named(err))
	}
	return nil
}

// checkTransaction returns an error unless a transaction is on the driver's file, whose
// schema is still that with which the driver opened it.
func (d *Driver) checkTransaction(ctx context.Context, tx *sql.Tx) error {
	var path string
	var schema int
	err := tx.QueryRowContext(ctx, "SELECT file, (SELECT user_version FROM pragma_user_version) FROM pragma_database_list WHERE name = 'main'").Scan(&path, &schema)
	var ours *sqlite.Error
	switch {
	case err == nil:
	case errors.As(err, &ours) || errors.Is(err, sql.ErrTxDone) || ctx.Err() != nil:
		return fmt.Errorf("querying its file: %w", err)
	default:
		return fmt.Errorf("it must be on the file %q, opened with the driver \"sqlite\": %w: %w", d.path, driver.ErrForeignTransaction, err)
	}
	theirs, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("it must be on the file %q (is on %q): %w: %w", d.path, path, driver.ErrForeignTransaction, err)
	}
	if _, err = d.writer.identity.check(d.path); err != nil {
		return err
	}
	err = d.writer.identity.checkIndex(d.path)
	if err != nil {
		return err
	}
	if !os.SameFile(d.writer.identity.database, theirs) {
		return fmt.Errorf("it must be on the file %q (is on %q): %w", d.path, path, driver.ErrForeignTransaction)
	}
	return checkSchema(schema, d.writer.schema)
}

// callersConnection runs statements in a transaction of the caller.
type callersConnection struct {
	ctx context.Context
	tx  *sql.Tx
	row row
}

func (c *callersConnection) exec(s statement, args ...any) (int64, error) {
	result, err := c.tx.ExecContext(c.ctx, statementTexts[s], args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *callersConnection) insertRow(s statement, args ...any) (key int64, err error) {
	result, err := c.tx.ExecContext(c.ctx, statementTexts[s], args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	if n == 0 || err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (c *callersConnection) query(s statement, each func(*row) error, args ...any) error {
	return c.queryText(statementTexts[s], each, args...)
}

func (c *callersConnection) queryText(text string, each func(*row) error, args ...any) error {
	rows, err := c.tx.QueryContext(c.ctx, text, args...)
	if err != nil {
		return err
	}
	return c.row.readAll(rows, each)
}

// readAll calls each for every row of a result, and closes it.
func (r *row) readAll(rows *sql.Rows, each func(*row) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, dest := make(scannedRow, len(columns)), make([]any, len(columns))
	for i := range dest {
		dest[i] = &values[i]
	}
	r.columns = values
	for rows.Next() {
		err = rows.Scan(dest...)
		if err == nil {
			err = r.read(each)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}
