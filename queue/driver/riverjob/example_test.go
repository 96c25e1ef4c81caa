package riverjob_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// SendMail has the arguments that a program in Python inserts for jobs of the kind "send_mail".
type SendMail struct {
	To string `json:"to"`
}

var _ = job.Define("send_mail", 1, func(_ context.Context, m SendMail) error {
	fmt.Println("sending to", m.To)
	return nil
})

// Run the jobs that other programs insert into queue "mail" of River's tables, until the process is
// interrupted.
func ExampleOpen() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := riverjob.Open(ctx, riverjob.Options{URL: os.Getenv("DATABASE_URL"), Queues: []string{"mail"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := q.Start(ctx); err != nil {
		fmt.Println(err)
	}
	<-ctx.Done()
	q.Close(context.Background())
}

// Order has the arguments of the jobs of the kind "ship".
type Order struct {
	ID int `json:"id"`
}

// End a job in the transaction that does its work, as River's JobCompleteTx does.
func ExampleWithTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	job.Define("ship", 1, func(ctx context.Context, o Order) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO shipments (order_id) VALUES ($1)", o.ID); err != nil {
				return err
			}
			return job.CompleteIn(riverjob.WithTx(ctx, tx)) // last before the commit
		})
	})
	// Open a store and a queue as in the example of Open.
}
