package amboy_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// deafJob is a job that ignores its context.
type deafJob struct {
	job.Base
	returns chan struct{}
}

func (j *deafJob) Run(context.Context) {
	defer j.MarkComplete()
	<-j.returns
}

func ExampleJobInfo_Stuck() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	if err := q.Start(ctx); err != nil {
		panic(err)
	}
	defer q.Close(ctx)

	j := &deafJob{returns: make(chan struct{})}
	j.SetID("deaf")
	j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: 10 * time.Millisecond})
	if err := q.Put(ctx, j); err != nil {
		panic(err)
	}
	// A run is stuck if it goes on for five seconds after its maximum time.
	for stuck := (*amboy.StuckRun)(nil); stuck == nil; time.Sleep(10 * time.Millisecond) {
		for info := range q.JobInfo(ctx) {
			if stuck = info.Stuck(); stuck != nil {
				fmt.Println(info.ID, "is stuck:", stuck.Cause)
			}
		}
	}
	close(j.returns)
	amboy.Wait(ctx, q)
	// Output:
	// deaf is stuck: job ran longer than its maximum time of 10ms
}
