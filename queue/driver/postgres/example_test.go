package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// Put a job in the same transaction as a change of the application, and run it after the commit.
func ExampleOpen() {
	if err := putAndRun(context.Background(), os.Getenv("DATABASE_URL"), "amboy"); err != nil {
		fmt.Println(err)
	}
}

func putAndRun(ctx context.Context, url, schema string) (err error) {
	store, err := postgres.Open(ctx, postgres.Options{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	if err != nil {
		return err
	}
	defer q.Close(ctx)

	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, failure := tx.Exec(ctx, "CREATE TEMPORARY TABLE orders AS SELECT 1 AS id")
		if failure == nil {
			_, failure = sendMail.Put(postgres.WithTx(ctx, tx), q, mail{To: "ada@example.com"})
		}
		return failure
	})
	if err != nil {
		return err
	}
	err = q.Start(ctx)
	if err != nil {
		return err
	}
	amboy.Wait(ctx, q)
	fmt.Println(q.Stats(ctx).Completed, "completed")
	return nil
}

// The example needs a server, so a test runs it.
func TestExample(t *testing.T) {
	require.NoError(t, putAndRun(t.Context(), pgtest.URL(t), pgtest.Schema(t)))
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
