package amboy_test

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// reindex is a hand-written job of which at most one waits per customer.
type reindex struct {
	job.Base `bson:"job_base" json:"job_base"`
	Customer string `bson:"customer" json:"customer"`
}

func (j *reindex) UniqueKey() (string, amboy.UniqueUntil) {
	return "reindex " + j.Customer, amboy.UniqueUntilStarted
}

func (j *reindex) Run(context.Context) {
	defer j.MarkComplete()
	fmt.Println("indexing", j.Customer)
}

// A hand-written job has a unique key if it has this method; job.Unique sets that of a definition's jobs.
func ExampleUniqueJob() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	for id, customer := range []string{"smith", "smith", "jones"} {
		j := &reindex{Base: job.Base{Name: fmt.Sprint("change-", id)}, Customer: customer}
		fmt.Println(q.Put(ctx, j))
	}
	// Output:
	// <nil>
	// putting job "change-1": unique key "reindex smith" of job "change-1" is held by job "change-0"
	// <nil>
}
