package job_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

// image holds the arguments of a service's jobs.
type image struct {
	Bucket string `json:"bucket"`
	Path   string `json:"path"`
	Width  int    `json:"width"`
}

var greetUser = job.Define("greet-user", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// started returns a started queue that stores its jobs in memory, as other queues do in a
// database.
func started(ctx context.Context) amboy.Queue {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	return q
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleDefine() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	_, err := greetUser.Put(ctx, q, "world")
	must(err)
	_, err = greetUser.Put(ctx, q, "you", job.ID("greet-you"), job.In(time.Millisecond), job.Tags("polite"))
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	// Output:
	// hello, world
	// hello, you
	// true
}

var measureImage = job.DefineResult("measure-image", 1, func(_ context.Context, i image) (size int, err error) {
	if i.Width <= 0 {
		return 0, fmt.Errorf("measuring %q: width must be positive (is %d)", i.Path, i.Width)
	}
	return i.Width * i.Width, nil
})

func ExampleDefineResult() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	cat, err := measureImage.Put(ctx, q, image{Path: "cat.png", Width: 64})
	must(err)
	dog, err := measureImage.Put(ctx, q, image{Path: "dog.png"}, job.ID("dog"))
	must(err)
	amboy.Wait(ctx, q)

	fmt.Println(measureImage.Result(ctx, q, cat))
	fmt.Println(measureImage.Result(ctx, q, dog))
	// Output:
	// 4096 <nil>
	// 0 job "dog" has no result: it is failed: measuring "dog.png": width must be positive (is 0)
}

var shrinkImage = job.Define("shrink-image", 1, func(context.Context, image) error { return nil }, job.Defaults[image]{
	Priority:    3,
	MaxAttempts: 5,
	RetryPolicy: retry.Exponential{Base: time.Second, Max: time.Hour, Jitter: 0.2},
	Timeout:     time.Minute,
	Scopes:      func(i image) []string { return []string{i.Bucket} },
	Tags:        []string{"images"},
	Unique:      job.Uniqueness{Args: true},
	Retention:   amboy.Retention{Succeeded: time.Hour},
})

func ExampleDefaults() {
	cat := image{Bucket: "pets", Path: "cat.png", Width: 64}
	j, err := shrinkImage.New(cat)
	must(err)
	fmt.Println(amboy.PriorityOf(j), j.RetryInfo().MaxAttempts, j.TimeInfo().MaxTime, j.Scopes(), amboy.TagsOf(j))

	j, err = shrinkImage.New(cat, job.Priority(9), job.MaxAttempts(1), job.Scopes(), job.Tags("urgent"))
	must(err)
	fmt.Println(amboy.PriorityOf(j), j.RetryInfo().Retryable, j.TimeInfo().MaxTime, j.Scopes(), amboy.TagsOf(j))
	// Output:
	// 3 5 1m0s [pets] [images]
	// 9 false 1m0s [] [urgent]
}

func ExampleDefinition_New() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	var jobs []amboy.Job
	for _, name := range []string{"Ada", "Grace"} {
		j, err := greetUser.New(name)
		must(err)
		jobs = append(jobs, j)
	}
	must(q.PutMany(ctx, jobs))
	amboy.Wait(ctx, q)
	// Output:
	// hello, Ada
	// hello, Grace
}

var sendReport = job.Define("send-report", 1, func(_ context.Context, _ string) error { return nil })

func ExampleUnique() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	daily := job.Unique(job.Uniqueness{Args: true, Period: 24 * time.Hour})
	at := job.At(time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC))
	next := job.At(time.Date(2100, 1, 2, 12, 0, 0, 0, time.UTC))
	for _, put := range []struct {
		user string
		at   job.Option
	}{{"ada", at}, {"ada", at}, {"grace", at}, {"ada", next}} {
		_, err := sendReport.Put(ctx, q, put.user, daily, put.at)
		fmt.Println(put.user, amboy.IsDuplicateJobError(err))
	}
	// Output:
	// ada false
	// ada true
	// grace false
	// ada false
}

var importRows = job.Define("import-rows", 1, func(ctx context.Context, rows int) error {
	for row := range rows {
		job.Log(ctx, "%s: row %d, attempt %d", job.IDFrom(ctx), row, job.AttemptFrom(ctx))
		if err := job.SetProgress(ctx, float64(row+1)/float64(rows), "importing"); err != nil {
			return err
		}
	}
	return nil
})

func ExampleSetProgress() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	_, err := importRows.Put(ctx, q, 2, job.ID("import"))
	must(err)
	amboy.Wait(ctx, q)
	for info := range q.JobInfo(ctx) { // also shows it while the job runs
		fmt.Println(info.Progress.Fraction, info.Progress.Message)
		for _, line := range info.Progress.Log {
			fmt.Println(line.Text)
		}
	}
	// Output:
	// 1 importing
	// import: row 0, attempt 0
	// import: row 1, attempt 0
}

// cursor holds the arguments of a job that remembers how far it got.
type cursor struct {
	Names []string `json:"names"`
	Next  int      `json:"next"`
}

var visit = job.Define("visit", 1, func(ctx context.Context, c cursor) error {
	for i := c.Next; i < len(c.Names); i++ {
		fmt.Println("visiting", c.Names[i])
		c.Next = i + 1
		if err := job.Checkpoint(ctx, c); err != nil {
			return err
		}
		if c.Names[i] == "Bern" && job.AttemptFrom(ctx) == 0 {
			return errors.New("lost the way")
		}
	}
	return nil
}, job.Defaults[cursor]{MaxAttempts: 2})

func ExampleCheckpoint() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	_, err := visit.Put(ctx, q, cursor{Names: []string{"Aarau", "Bern", "Chur"}})
	must(err)
	amboy.Wait(ctx, q)
	// Output:
	// visiting Aarau
	// visiting Bern
	// visiting Chur
}

var poll = job.DefineResult("poll", 1, func(ctx context.Context, asked int) (string, error) {
	if asked < 2 {
		fmt.Println("not yet, attempt", job.AttemptFrom(ctx))
		if err := job.Checkpoint(ctx, asked+1); err != nil {
			return "", err
		}
		return "", job.Snooze(time.Millisecond)
	}
	return fmt.Sprintf("asked %d times", asked+1), nil
})

func ExampleSnooze() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	id, err := poll.Put(ctx, q, 0)
	must(err)
	amboy.Wait(ctx, q)
	fmt.Println(poll.Result(ctx, q, id))
	// Output:
	// not yet, attempt 0
	// not yet, attempt 0
	// asked 3 times <nil>
}

var charge = job.Define("charge", 1, func(_ context.Context, card string) error {
	return job.Cancel(fmt.Errorf("card %q has expired", card))
}, job.Defaults[string]{MaxAttempts: 10})

func ExampleCancel() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	_, err := charge.Put(ctx, q, "1234")
	must(err)
	amboy.Wait(ctx, q)
	for info := range q.JobInfo(ctx) {
		fmt.Println(info.State, info.Retry.CurrentAttempt, info.Status.Errors)
	}
	// Output:
	// canceled 0 [the job canceled itself: card "1234" has expired]
}

// sweep is a hand-written job.
type sweep struct {
	job.Base `bson:"job_base" json:"job_base"`
}

func (j *sweep) Run(ctx context.Context) {
	ctx = job.NewContext(ctx, j)
	job.Log(ctx, "swept")
	j.AddError(job.SetProgress(ctx, 1, "clean"))
}

func ExampleNewContext() {
	j := &sweep{}
	j.SetID("sweep")
	fmt.Println(amboy.RunJob(context.Background(), j), j.Progress().Message, j.Progress().Log[0].Text)
	// Output:
	// <nil> clean swept
}

func ExampleRetryPolicy() {
	j, err := shrinkImage.New(image{}, job.RetryPolicy(retry.Fixed{Wait: time.Minute}))
	must(err)
	stored, err := registry.MakeJobInterchange(j, amboy.JSON)
	must(err)
	read, err := stored.Resolve(amboy.JSON)
	must(err)
	fmt.Println(amboy.RetryDelay(read, nil))
	// Output:
	// 1m0s
}

func ExampleMaxInterruptions() {
	j, err := shrinkImage.New(image{Path: "huge.png"}, job.MaxInterruptions(2))
	must(err)
	fmt.Println(j.RetryInfo().MaxInterruptions)
	_, err = shrinkImage.New(image{}, job.MaxInterruptions(-1))
	fmt.Println(err != nil)
	// Output:
	// 2
	// true
}
