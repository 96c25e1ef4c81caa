package queue_test

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// Find jobs by their tags and states.
func Example_findJobs() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 100)
	defer q.Close(ctx)
	for _, id := range []string{"invoice-1", "invoice-2", "report"} {
		j := newStep(id)
		if id != "report" {
			j.SetTags([]string{"customer:7"})
		}
		must(q.Put(ctx, j))
	}

	finder := q.(amboy.JobFinder)
	ofCustomer := amboy.JobQuery{Tag: "customer:7", States: []amboy.JobState{amboy.StatePending}}
	for info, err := range finder.FindJobs(ctx, ofCustomer) {
		must(err)
		fmt.Println(info.ID, info.Tags)
	}
	n, err := finder.CountJobs(ctx, amboy.JobQuery{})
	must(err)
	fmt.Println(n, "in all")
	// Output:
	// invoice-1 [customer:7]
	// invoice-2 [customer:7]
	// 3 in all
}
