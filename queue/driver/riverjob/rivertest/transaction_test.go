package rivertest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

func TestAJobEndsInATransactionOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE {s}.own (n int)`)
	for name, test := range map[string]struct {
		end   func(context.Context, pgx.Tx) error
		state string
		rows  int
		says  string
	}{
		"that is committed":                 {func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, "completed", 1, ""},
		"that is committed before an error": {func(ctx context.Context, tx pgx.Tx) error { return errors.Join(tx.Commit(ctx), errDisk) }, "completed", 1, ""},
		"that is rolled back":               {func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, "discarded", 0, amboy.ErrNotCommitted.Error()},
		"that is rolled back with an error": {func(ctx context.Context, tx pgx.Tx) error { return errors.Join(tx.Rollback(ctx), errDisk) }, "discarded", 0, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			w.exec(`TRUNCATE {s}.own`)
			kind := define(t, func(ctx context.Context, _ args) error {
				tx, err := w.pool.Begin(ctx)
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, w.sql(`INSERT INTO {s}.own VALUES (1)`))
				if err == nil {
					err = job.CompleteIn(riverjob.WithTx(ctx, tx))
				}
				if err != nil {
					return errors.Join(err, tx.Rollback(ctx))
				}
				return test.end(ctx, tx)
			})
			id := w.insert(pythonJob{kind: kind, maxAttempts: 1})
			w.exec(`UPDATE {s}.river_job SET metadata = '{"theirs": 1}' WHERE id = $1`, id)
			w.start()
			r := w.await(id, test.state)
			assert.Equal(t, test.rows, ask[int](w, `SELECT count(*) FROM {s}.own`))
			assert.InDelta(t, 1, r.Metadata["theirs"], 0)
			if test.says == "" {
				assert.Empty(t, r.Errors)
				return
			}
			require.Len(t, r.Errors, 1)
			assert.Contains(t, *w.errorsOf(id)[0].Error, test.says)
		})
	}
}

func TestTransactionsThatCanNotEndAJobAreRefused(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x"})
	r := claimOne(w.ctx, t, d)[0]
	completion := []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}}
	r.Status.InProgress, r.Status.Completed = false, true

	begin := func(pool *pgxpool.Pool) pgx.Tx {
		tx, err := pool.Begin(w.ctx)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(w.ctx))) })
		return tx
	}
	other := w.schema + "_other"
	w.exec(`CREATE DATABASE ` + other)
	elsewhere := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.Database = other })
	for name, ctx := range map[string]context.Context{
		"of another database": riverjob.WithTx(w.ctx, begin(elsewhere)),
		"of another store":    postgres.WithTx(w.ctx, begin(w.pool)),
	} {
		_, err := d.Complete(ctx, completion)
		require.ErrorIs(t, err, driver.ErrForeignTransaction, name)
	}
	_, err := d.Complete(riverjob.WithTx(w.ctx, nil), completion)
	require.ErrorContains(t, err, "the transaction is nil")
	assert.Equal(t, "running", w.row(id).State)

	// A lease that was lost.
	w.exec(`UPDATE {s}.river_job SET attempted_by = '{another}'`)
	errs, err := d.Complete(riverjob.WithTx(w.ctx, begin(w.pool)), completion)
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
}

// The transactions of callers may hold all connections of the pool.
func TestAJobEndsInATransactionOnTheOnlyConnection(t *testing.T) {
	w := newWorld(t)
	pool := poolWith(w, func(c *pgxpool.Config) { c.MaxConns = 1 })
	d := w.open(func(o *riverjob.Options) { o.Pool = pool })
	id := w.insert(pythonJob{kind: "x"})
	r := claimOne(w.ctx, t, d)[0]
	completion := []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}}
	r.Status.InProgress, r.Status.Completed = false, true
	tx, err := pool.Begin(w.ctx)
	require.NoError(t, err)
	errs, err := d.Complete(riverjob.WithTx(soon(w), tx), completion)
	require.NoError(t, err)
	require.NoError(t, errs[0])
	require.NoError(t, tx.Commit(w.ctx))
	w.await(id, "completed")
}

// Whether a job exists whose row the transaction did not find was asked on another connection.
func TestAJobThatIsGoneEndsInATransactionOnTheOnlyConnection(t *testing.T) {
	w := newWorld(t)
	pool := poolWith(w, func(c *pgxpool.Config) { c.MaxConns = 1 })
	d := w.open(func(o *riverjob.Options) { o.Pool = pool })
	w.insert(pythonJob{kind: "x"})
	r := claimOne(w.ctx, t, d)[0]
	completion := []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}}
	r.Status.InProgress, r.Status.Completed = false, true
	w.exec(`DELETE FROM {s}.river_job`)
	tx, err := pool.Begin(w.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(w.ctx))) })
	errs, err := d.Complete(riverjob.WithTx(soon(w), tx), completion)
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
}
