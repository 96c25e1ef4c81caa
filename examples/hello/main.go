// Command hello is the first job of the README.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var greet = job.Define("greet", 1, func(_ context.Context, name string) error { fmt.Println("hello,", name); return nil })

func main() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100) // 4 workers, room for 100 waiting jobs
	startErr := q.Start(ctx)
	_, putErr := greet.Put(ctx, q, "world")
	fmt.Println("all done:", amboy.Wait(ctx, q), "error:", errors.Join(startErr, putErr))
	q.Close(ctx)
}
