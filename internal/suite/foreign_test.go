package suite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"
	mongooptions "go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var inTransaction = job.Define("suite.transaction", 1, func(context.Context, struct{}) error { return nil })

// Transactions of another driver of database/sql, and of another client of MongoDB, were refused with an error
// that did not say so.
func TestATransactionOfAnotherStoreIsRefused(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "jobs.db")
	uri := mongotest.Open(t, mongotest.ReplicaSet()).URI()

	withMemory, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(t, err)
	withSQLite, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	require.NoError(t, err)
	withPostgres, err := postgres.Open(ctx, postgres.Options{Pool: pgtest.Pool(t), Schema: pgtest.EmptySchema(t)})
	require.NoError(t, err)
	withMongoDB, err := mongodb.Open(ctx, mongodb.Options{URI: uri, DB: "suite", Collection: "foreign"})
	require.NoError(t, err)
	local, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Capacity: 10, PutBeforeStart: true})
	require.NoError(t, err)
	queues := map[string]amboy.Queue{"local": local}
	for name, store := range map[string]driver.Driver{"memory": withMemory, "sqlite": withSQLite, "postgres": withPostgres, "mongodb": withMongoDB} {
		queues[name], err = queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
	}

	begin := func(name, source string) *sql.Tx {
		db, openErr := sql.Open(name, source)
		require.NoError(t, openErr)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		tx, openErr := db.BeginTx(context.WithoutCancel(ctx), nil) // it ends after the test's context
		require.NoError(t, openErr)
		t.Cleanup(func() { assert.NoError(t, tx.Rollback()) })
		return tx
	}
	pgxTx, err := pgtest.Pool(t).Begin(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, pgxTx.Rollback(context.WithoutCancel(ctx))) }()
	client, err := mongo.Connect(ctx, mongooptions.Client().ApplyURI(uri))
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Disconnect(context.WithoutCancel(ctx))) }()
	session, err := client.StartSession()
	require.NoError(t, err)
	defer session.EndSession(context.WithoutCancel(ctx))
	require.NoError(t, session.StartTransaction())

	for _, x := range []struct {
		name string
		ctx  context.Context
		of   string // the only queue that may take it
	}{
		{"pgx.Tx", postgres.WithTx(ctx, pgxTx), "postgres"},
		{"sql.Tx of pgx", postgres.WithSQLTx(ctx, begin("pgx", pgtest.URL(t))), "postgres"},
		{"sql.Tx of SQLite", sqlite.WithTx(ctx, begin("sqlite", path)), "sqlite"},
		{"sql.Tx of pgx for SQLite", sqlite.WithTx(ctx, begin("pgx", pgtest.URL(t))), ""},
		{"sql.Tx of SQLite for PostgreSQL", postgres.WithSQLTx(ctx, begin("sqlite", path)), ""},
		{"session of another client of MongoDB", mongo.NewSessionContext(ctx, session), ""},
	} {
		for name, q := range queues {
			_, err = inTransaction.Put(x.ctx, q, struct{}{})
			if name == x.of {
				require.NoError(t, err, "%s in queue %s", x.name, name)
				continue
			}
			require.ErrorIs(t, err, amboy.ErrForeignTransaction, "%s in queue %s", x.name, name)
			assert.Zero(t, q.Stats(ctx).Total, "%s in queue %s", x.name, name)
		}
	}
	require.NoError(t, session.AbortTransaction(ctx))
	for _, q := range queues {
		q.Close(ctx)
	}
}
