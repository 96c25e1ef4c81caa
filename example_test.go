package amboy_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// resize is a job of a service.
type resize struct {
	job.Base `bson:"job_base" json:"job_base"`
	Path     string `bson:"path" json:"path"`
}

func newResize(path string) *resize {
	j := &resize{Path: path}
	j.SetID("resize." + path)
	j.SetType(amboy.JobType{Name: "resize", Version: 1})
	return j
}

func (j *resize) Run(context.Context) {
	defer j.MarkComplete()
	if j.Path == "" {
		j.AddError(errors.New("there is nothing to resize"))
		return
	}
	fmt.Println("resizing", j.Path)
}

func ExampleRunJob() {
	ctx := context.Background()

	fmt.Println(amboy.RunJob(ctx, newResize("cat.png")))
	fmt.Println(amboy.RunJob(ctx, newResize("")))
	// Output:
	// resizing cat.png
	// <nil>
	// there is nothing to resize
}

func ExampleDuplicateJobError() {
	ctx := context.Background()
	// q already holds resize.cat.png.
	q := &fakeQueue{putErrs: map[string]error{"resize.cat.png": &amboy.DuplicateJobError{
		JobID: "resize.cat.png", Reason: amboy.DuplicateID, Value: "resize.cat.png", ExistingID: "resize.cat.png",
	}}}

	err := q.Put(ctx, newResize("cat.png"))
	var duplicate *amboy.DuplicateJobError
	if errors.As(err, &duplicate) {
		fmt.Println("already there:", duplicate.ExistingID, "because of the", duplicate.Reason)
	}
	fmt.Println(amboy.IsDuplicateJobError(err))
	// Output:
	// already there: resize.cat.png because of the id
	// true
}

func ExampleIsDuplicateJobError() {
	put := func() error {
		return fmt.Errorf("handling the upload: %w", amboy.NewDuplicateJobError("job resize.cat.png is in the queue"))
	}

	err := put()
	fmt.Println(amboy.IsDuplicateJobError(err), amboy.IsDuplicateJobScopeError(err))
	fmt.Println(amboy.IsDuplicateJobError(errors.New("the disk is full")))
	// Output:
	// true false
	// false
}

func ExampleCollateWriteErrors() {
	taken := amboy.NewDuplicateJobError("the ID is taken")
	held := amboy.NewDuplicateJobScopeError("the scope is held")
	broken := errors.New("the disk is full")

	fmt.Println(amboy.IsDuplicateJobError(amboy.CollateWriteErrors([]error{taken, held})))
	fmt.Println(amboy.IsDuplicateJobError(amboy.CollateWriteErrors([]error{taken, broken})))
	// Output:
	// true
	// false
}

func ExampleEnqueueManyUniqueJobs() {
	ctx := context.Background()
	// q already holds resize.cat.png.
	q := &fakeQueue{putErrs: map[string]error{"resize.cat.png": amboy.NewDuplicateJobError("the ID is taken")}}

	jobs := []amboy.Job{newResize("cat.png"), newResize("dog.png")}
	fmt.Println(amboy.EnqueueManyUniqueJobs(ctx, q, jobs))
	fmt.Println(q.ids())
	// Output:
	// <nil>
	// [resize.dog.png]
}

func ExamplePopulateQueue() {
	q := &fakeQueue{}
	jobs := make(chan amboy.Job, 2)
	jobs <- newResize("cat.png")
	jobs <- newResize("dog.png")
	close(jobs)

	fmt.Println(amboy.PopulateQueue(context.Background(), q, jobs))
	fmt.Println(q.ids())
	// Output:
	// <nil>
	// [resize.cat.png resize.dog.png]
}

func ExampleResolveErrors() {
	ctx := context.Background()
	good, bad := newResize("cat.png"), newResize("")
	_, _ = amboy.RunJob(ctx, good), amboy.RunJob(ctx, bad)
	q := &fakeQueue{results: []amboy.Job{good, bad}}

	fmt.Println(amboy.ResolveErrors(ctx, q))
	// Output:
	// resizing cat.png
	// job "resize.": there is nothing to resize
}

func ExampleReport() {
	q := &fakeQueue{infos: []amboy.JobInfo{
		{ID: "resize.cat.png", Status: amboy.JobStatusInfo{Completed: true}},
		{ID: "resize.dog.png", Status: amboy.JobStatusInfo{InProgress: true}},
	}}

	report := amboy.Report(context.Background(), q, 10)
	fmt.Println(report.Completed, report.InProgress, report.Pending)
	// Output: [resize.cat.png] [resize.dog.png] []
}

// cleanUp is the job that the periodic operation puts.
var cleanUp = job.Define("example.clean-up", 1, func(context.Context, string) error { return nil })

func ExampleIntervalQueueOperation() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q := &fakeQueue{}

	// A service leaves Clock unset and uses real time.
	start := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	clock := clockwork.NewFakeClockAt(start)
	conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true, Clock: clock}
	amboy.IntervalQueueOperation(ctx, q, time.Minute, start, conf, func(ctx context.Context, q amboy.Queue) error {
		at := clock.Now().Format("15:04")
		_, err := cleanUp.Put(ctx, q, at, job.ID("clean-up."+at))
		return err
	})

	// Each time the operation waits for its next run, a minute passes.
	for range 2 {
		if err := clock.BlockUntilContext(ctx, 1); err != nil {
			fmt.Println(err)
		}
		clock.Advance(time.Minute)
	}
	if err := clock.BlockUntilContext(ctx, 1); err != nil {
		fmt.Println(err)
	}
	fmt.Println(q.ids())
	// Output: [clean-up.03:00 clean-up.03:01 clean-up.03:02]
}

func ExampleGroupQueueOperationFactory() {
	q := &fakeQueue{}
	op := amboy.GroupQueueOperationFactory(
		amboy.ScheduleJobFactory(func() amboy.Job { return newResize("cat.png") }),
		amboy.ScheduleManyJobsFactory(func() []amboy.Job {
			return []amboy.Job{newResize("dog.png"), newResize("cow.png")}
		}),
	)

	fmt.Println(op(context.Background(), q))
	fmt.Println(q.ids())
	// Output:
	// <nil>
	// [resize.cat.png resize.dog.png resize.cow.png]
}
