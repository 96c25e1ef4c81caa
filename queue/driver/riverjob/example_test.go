package riverjob_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

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
