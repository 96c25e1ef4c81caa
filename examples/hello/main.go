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

type hello struct{ job.Base }

func (j *hello) Run(context.Context) { fmt.Println("hello,", j.ID()) }

func main() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100) // 4 workers, room for 100 waiting jobs
	err := errors.Join(q.Start(ctx), q.Put(ctx, &hello{job.Base{Name: "world"}}))
	fmt.Println("all done:", amboy.Wait(ctx, q), "error:", err)
	q.Close(ctx)
}
