package management_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// tonight returns a job that is due in an hour.
func tonight(id, jobType string) amboy.Job {
	j := newTask(id, jobType)
	j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	return j
}

// Count the jobs of a queue, list some, and mark those complete that should not run.
func ExampleNewQueueManager() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	must(q.PutMany(ctx, []amboy.Job{
		tonight("report.2026-11-01", "alpha"), tonight("report.2026-11-02", "alpha"), tonight("mail", "beta"),
	}))

	m := management.NewQueueManager(q)
	counts, err := m.JobStatus(ctx, management.Pending)
	must(err)
	fmt.Println(counts)
	ids, err := m.JobIDsByState(ctx, "alpha", management.Pending)
	must(err)
	fmt.Println(ids)

	must(m.CompleteJob(ctx, "mail"))
	must(m.CompleteJobsByPattern(ctx, management.Pending, `report\.2026-11-.*`))
	fmt.Println(q.Stats(ctx))
	// Output:
	// [{alpha  2} {beta  1}]
	// [{report.2026-11-01 } {report.2026-11-02 }]
	// running='0', completed='3', retrying='0', pending='0', blocked='0', total='3'
}

// An InvalidArgumentError states what is allowed.
func ExampleInvalidArgumentError() {
	q := queue.NewLocalLimitedSize(1, 10)
	_, err := management.NewQueueManager(q).JobStatus(context.Background(), "waiting")
	var argument *management.InvalidArgumentError
	if errors.As(err, &argument) {
		fmt.Println(argument.Field)
		fmt.Println(argument.Value)
		fmt.Println(argument.Rule)
	}
	// Output:
	// filter
	// waiting
	// must be one of ["pending" "in-progress" "stale" "completed" "retrying" "stale-retrying" "all"]
}
