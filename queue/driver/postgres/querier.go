package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// querier runs statements on a connection or in a transaction.
type querier interface {
	exec(ctx context.Context, text string, args ...any) (int64, error)
	query(ctx context.Context, text string, each func(*row) error, args ...any) error
	// send runs statements one after the other, until one fails, in one round trip if that is possible.
	send(ctx context.Context, all []queued) error
}

// queued is a statement that is sent together with others.
type queued struct {
	text string
	args []any
	// each reads the rows of a query.
	each func(*row) error
	// check checks the number of rows that a statement without each has changed; nil allows any number.
	check func(rows int64) error
	// complete sets text and args before the statement is sent, unless it is nil.
	complete func(*queued)
}

// pgxQuerier uses a pgx.Tx, a connection or a pool.
type pgxQuerier struct {
	on interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}
}

func (q pgxQuerier) exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := q.on.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (q pgxQuerier) query(ctx context.Context, text string, each func(*row) error, args ...any) error {
	rows, err := q.on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	return readRows(rows, each)
}

func (q pgxQuerier) send(ctx context.Context, all []queued) error {
	if len(all) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, s := range all {
		sent := b.Queue(s.text, s.args...)
		switch {
		case s.each != nil:
			sent.Query(func(rows pgx.Rows) error { return readRows(rows, s.each) })
		case s.check != nil:
			sent.Exec(func(tag pgconn.CommandTag) error { return s.check(tag.RowsAffected()) })
		}
	}
	return q.on.SendBatch(ctx, b).Close()
}

// poolQuerier runs statements on the connections of a pool, each in a transaction of its own.
// It retries if a connection turns out to be broken before anything was sent.
type poolQuerier struct{ pool pgxQuerier }

func (q poolQuerier) exec(ctx context.Context, text string, args ...any) (n int64, err error) {
	for range retries {
		n, err = q.pool.exec(ctx, text, args...)
		if !isUnsent(err) || ctx.Err() != nil {
			break
		}
	}
	return n, err
}

func (q poolQuerier) query(ctx context.Context, text string, each func(*row) error, args ...any) (err error) {
	for range retries {
		err = q.pool.query(ctx, text, each, args...)
		if !isUnsent(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (q poolQuerier) send(ctx context.Context, all []queued) (err error) {
	for range retries {
		err = q.pool.send(ctx, all)
		if !isUnsent(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func readRows(rows pgx.Rows, each func(*row) error) error {
	defer rows.Close()
	var r row
	for rows.Next() {
		err := r.scan(rows)
		if err == nil {
			err = r.read(each)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlQuerier uses a transaction of database/sql, on a handle of pgx's package stdlib.
type sqlQuerier struct{ tx *sql.Tx }

// isOfAnotherDriver reports whether a statement failed because the transaction is not one of PostgreSQL.
// PostgreSQL refuses all statements of a transaction after one has failed.
func (q sqlQuerier) isOfAnotherDriver(ctx context.Context, failure error) bool {
	if pgconnect.CodeOf(failure) != "" {
		return false
	}
	_, err := q.exec(ctx, "SELECT 1")
	return err == nil
}

func (q sqlQuerier) exec(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := q.tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q sqlQuerier) query(ctx context.Context, text string, each func(*row) error, args ...any) (err error) {
	rows, err := q.tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	r := row{values: make([]any, len(columns))}
	targets := make([]any, len(columns))
	for i := range targets {
		targets[i] = &r.values[i]
	}
	for rows.Next() {
		err = rows.Scan(targets...)
		if err == nil {
			r.at, r.err = 0, nil
			err = r.read(each)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

func (q sqlQuerier) send(ctx context.Context, all []queued) error {
	for _, s := range all {
		if s.each != nil {
			if err := q.query(ctx, s.text, s.each, s.args...); err != nil {
				return err
			}
			continue
		}
		rows, err := q.exec(ctx, s.text, s.args...)
		if err == nil && s.check != nil {
			err = s.check(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
