package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// mail is the payload of the jobs in the examples.
type mail struct{ To string }

var sendMail = job.Define("example.postgres.mail", 1, func(_ context.Context, m mail) error {
	fmt.Println("sending to", m.To)
	return nil
})

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// options name the server and the schema.
var options = postgres.Options{URL: os.Getenv("DATABASE_URL"), Schema: "amboy"}

// Run a job in PostgreSQL.
func ExampleOpen() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, options)
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	must(sendMail.PutAndWait(ctx, q, mail{To: "ada@example.com"}))
}

// Put a job in the same transaction as a change of the application.
func ExampleWithTx() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, options)
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	must(err)
	defer q.Close(ctx)

	conn, err := pgx.Connect(ctx, options.URL)
	must(err)
	must(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, failure := tx.Exec(ctx, "CREATE TEMPORARY TABLE orders AS SELECT 1 AS id"); failure != nil {
			return failure
		}
		_, failure := sendMail.Put(postgres.WithTx(ctx, tx), q, mail{To: "ada@example.com"})
		return failure
	}))
	must(conn.Close(ctx))
}

// The same with database/sql, whose driver must be that of pgx.
func ExampleWithSQLTx() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, options)
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	must(err)
	defer q.Close(ctx)

	db, err := sql.Open("pgx", options.URL)
	must(err)
	tx, err := db.BeginTx(ctx, nil)
	must(err)
	_, err = sendMail.Put(postgres.WithSQLTx(ctx, tx), q, mail{To: "ada@example.com"})
	must(err)
	must(tx.Commit())
	must(db.Close())
}

// Migrate the schema before a deploy, for instance in a job of the pipeline.
func ExampleMigrate() {
	steps, err := postgres.Migrate(context.Background(), options, true) // a dry run
	must(err)
	for _, step := range steps {
		fmt.Println(step.Version, step.SQL != "")
	}
}

// The examples need a server, so a test runs them.
func TestExamples(t *testing.T) {
	options = postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	ExampleOpen()
	ExampleWithTx()
	ExampleWithSQLTx()
	ExampleMigrate()
	store, err := postgres.Open(t.Context(), options)
	require.NoError(t, err)
	stats, err := store.Stats(t.Context(), "mail")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{stats.Completed, stats.Pending})
	require.NoError(t, store.Close(t.Context()))
}

// Two processes behind a pooler in transaction mode: one puts jobs, and the other one polls.
func TestQueueThroughPgBouncerInTransactionMode(t *testing.T) {
	opts := postgres.Options{URL: pgtest.PoolerURL(t), Schema: pgtest.Schema(t), PollOnly: true}
	var queues [2]amboy.RetryableQueue
	for i := range queues {
		store, err := postgres.Open(t.Context(), opts)
		require.NoError(t, err)
		queues[i], err = queue.NewDriverQueue(queue.DriverQueueOptions{
			Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 4, PollInterval: 10 * time.Millisecond,
		})
		require.NoError(t, err)
		t.Cleanup(func() { queues[i].Close(context.Background()) })
	}
	require.NoError(t, queues[1].Start(context.WithoutCancel(t.Context())))
	for range 20 {
		_, err := sendMail.Put(t.Context(), queues[0], mail{To: "ada@example.com"})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.True(t, amboy.Wait(ctx, queues[0]))
	require.Equal(t, 20, queues[0].Stats(t.Context()).Completed)
}
