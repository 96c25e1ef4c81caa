package job_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
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
	// 0 job "dog" has no result; its state is failed: measuring "dog.png": width must be positive (is 0)
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

// say is a job that fails if it has nothing to say.
var say = job.Define("say", 1, func(_ context.Context, text string) error {
	if text == "" {
		return errors.New("nothing to say")
	}
	_, err := fmt.Println(text)
	return err
})

// inline returns a queue whose jobs run, one after the other, when the example says so.
func inline() *queue.Inline {
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	must(err)
	return q
}

// The job with the larger priority runs first.
func ExamplePriority() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "newsletter", job.Priority(-1))
	must(err)
	_, err = say.Put(ctx, q, "receipt")
	must(err)
	_, err = say.Put(ctx, q, "password reset", job.Priority(10))
	must(err)
	q.RunAll(ctx)
	// Output:
	// password reset
	// receipt
	// newsletter
}

// A job that waits for its time occupies no worker.
func ExampleIn() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "reminder", job.In(time.Hour))
	must(err)
	_, err = say.Put(ctx, q, "welcome")
	must(err)
	fmt.Println(q.RunAll(ctx), "ran")
	q.AdvanceTo(q.Now().Add(time.Hour))
	fmt.Println(q.RunAll(ctx), "ran")
	// Output:
	// welcome
	// 1 ran
	// reminder
	// 1 ran
}

// A job that has not started by its dispatch-by time expires.
func ExampleDispatchBy() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	id, err := say.Put(ctx, q, "price of today", job.DispatchBy(q.Now().Add(time.Hour)))
	must(err)
	q.AdvanceTo(q.Now().Add(2 * time.Hour))
	q.RunAll(ctx)
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.NewJobInfo(j).State)
	// Output: expired
}

// A job that depends on a job which fails does not run.
func ExampleAfter() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	load, err := say.Put(ctx, q, "load")
	must(err)
	report, err := say.Put(ctx, q, "", job.After(load))
	must(err)
	mail, err := say.Put(ctx, q, "mail", job.After(report))
	must(err)
	q.RunAll(ctx)
	fmt.Println(say.Wait(ctx, q, mail) != nil)
	// Output:
	// load
	// true
}

// A job that cleans up runs whatever happened before.
func ExampleRunOnFailure() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	load, err := say.Put(ctx, q, "") // will fail
	must(err)
	_, err = say.Put(ctx, q, "clean up", job.After(load), job.RunOnFailure())
	must(err)
	q.RunAll(ctx)
	// Output: clean up
}

// sendMail is declared in a package that every process imports.
var sendMail = job.Declare[string]("example.send-mail", 1, job.Defaults[string]{MaxAttempts: 5})

// Only the process that runs the jobs has their function, and what that needs.
func ExampleDefinition_Bind() {
	ctx := context.Background()
	server := func(to string) error {
		_, err := fmt.Println("mail to", to)
		return err
	}
	must(sendMail.Bind(func(_ context.Context, to string) error { return server(to) }))

	q := inline()
	defer q.Close(ctx)
	_, err := sendMail.Put(ctx, q, "ann")
	must(err)
	q.RunAll(ctx)
	// Output: mail to ann
}

// A scope is a lock. With EnqueueScopes, Put takes it, and refuses other jobs that would.
func ExampleEnqueueScopes() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "first", job.Scopes("account 7"), job.EnqueueScopes(true))
	must(err)
	_, err = say.Put(ctx, q, "second", job.Scopes("account 7"), job.EnqueueScopes(true))
	fmt.Println(amboy.IsDuplicateJobScopeError(err))
	q.RunAll(ctx)
	// Output:
	// true
	// first
}

var inAccount = job.Define("in-account", 1, func(ctx context.Context, _ string) error {
	for info := range amboy.QueueFromContext(ctx).JobInfo(ctx) {
		if info.State == amboy.StateBlocked {
			fmt.Println(info.Status.Reason)
		}
	}
	return nil
}, job.Defaults[string]{
	Scopes: func(account string) []string { return []string{"account " + account} },
})

// The second job waits for the scope of the first.
func ExampleScopes() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := inAccount.Put(ctx, q, "7") // takes its scope from the defaults
	must(err)
	_, err = say.Put(ctx, q, "next", job.Scopes("account 7"))
	must(err)
	q.RunAll(ctx)
	// Output:
	// waits for scope "account 7"
	// next
}

// At most two of the jobs that name the limit "stripe" run at a time, in all processes.
func ExampleLimit() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 4, PutBeforeStart: true})
	must(err)
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	charge := job.Define("example.charge", 1, func(context.Context, string) error {
		begun <- struct{}{}
		<-finish
		return nil
	})
	for _, card := range []string{"1881", "4242", "5556"} {
		_, err = charge.Put(ctx, q, card, job.Limit("stripe", 2))
		must(err)
	}
	must(q.Start(ctx))
	<-begun
	<-begun
	stats := q.Stats(ctx)
	fmt.Println(stats.Running, "running,", stats.Blocked, "blocked")
	close(finish)
	amboy.Wait(ctx, q)
	q.Close(ctx)
	// Output: 2 running, 1 blocked
}

// What is logged under the context of a job is also in the log of the job.
func ExampleNewLogHandler() {
	logger := slog.New(job.NewLogHandler(slog.NewJSONHandler(io.Discard, nil)))
	resize := job.Define("example.resize", 1, func(ctx context.Context, path string) error {
		logger.InfoContext(ctx, "resizing", "path", path)
		return nil
	})

	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)
	id, err := resize.Put(ctx, q, "cat.png")
	must(err)
	q.RunAll(ctx)
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.ProgressOf(j).Log[0].Text)
	// Output: level=INFO msg=resizing path=cat.png
}

// Run a command as a job.
func ExampleShellJob() {
	j := job.NewShellJob("env", "")
	j.Env["WHO"] = "world"
	must(amboy.RunJob(context.Background(), j))
	fmt.Println(j.Output)

	j = job.NewShellJob("false", "")
	j.SetID("fails")
	fmt.Println(amboy.RunJob(context.Background(), j))
	// Output:
	// WHO=world
	// running the command of shell job "fails": exit status 1
}

// Run several jobs as one.
func ExampleGroup() {
	job.RegisterDefaultJobs() // the group stores its jobs
	g := job.NewGroup("checks")
	for id, command := range map[string]string{"first": "true", "second": "false"} {
		j := job.NewShellJob(command, "")
		j.SetID(id)
		must(g.Add(j))
	}
	err := amboy.RunJob(context.Background(), g)
	fmt.Println(err)
	fmt.Println(g.Jobs["first"].Status.ErrorCount, g.Jobs["second"].Status.ErrorCount)
	// Output:
	// job "second" of group "checks": running the command of shell job "second": exit status 1
	// 0 1
}

// Put a job, with options. It returns the ID of the job.
func ExampleDefinition_Put() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	id, err := say.Put(ctx, q, "hello", job.ID("greeting"), job.Tags("polite"))
	must(err)
	fmt.Println(id, q.RunAll(ctx), "ran")
	// Output:
	// hello
	// greeting 1 ran
}

// Wait returns the job's error.
func ExampleDefinition_Wait() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	for id, text := range map[string]string{"good": "hello", "bad": ""} {
		_, err := say.Put(ctx, q, text, job.ID(id))
		must(err)
		fmt.Println(say.Wait(ctx, q, id))
	}
	// Unordered output:
	// hello
	// <nil>
	// job "bad" has no result; its state is failed: nothing to say
}

// Put a job, and wait for its end.
func ExampleDefinition_PutAndWait() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	fmt.Println(say.PutAndWait(ctx, q, "hello"))
	// Output:
	// hello
	// <nil>
}

// Read the arguments of a job.
func ExampleDefinition_Args() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)
	id, err := say.Put(ctx, q, "hello")
	must(err)

	j, _ := q.Get(ctx, id)
	fmt.Println(say.Args(j))
	// Output: hello <nil>
}

// Put a job, and wait for its result.
func ExampleResultDefinition_PutAndWait() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	fmt.Println(measureImage.PutAndWait(ctx, q, image{Path: "cat.png", Width: 64}))
	// Output: 4096 <nil>
}

// Wait for the result of a job, which another process may have put.
func ExampleResultDefinition_Wait() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)
	id, err := measureImage.Put(ctx, q, image{Path: "cat.png", Width: 8})
	must(err)

	fmt.Println(measureImage.Wait(ctx, q, id))
	// Output: 64 <nil>
}

// Read a result without waiting.
func ExampleResultDefinition_Result() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)
	id, err := measureImage.Put(ctx, q, image{Path: "cat.png", Width: 8}, job.ID("cat"))
	must(err)

	fmt.Println(measureImage.Result(ctx, q, id))
	q.RunAll(ctx)
	fmt.Println(measureImage.Result(ctx, q, id))
	// Output:
	// 0 job "cat" has no result; its state is pending
	// 64 <nil>
}

// A job reads the result of the job that it waited for.
func ExampleResultDefinition_Result_ofADependency() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)
	announce := job.Define("announce", 1, func(ctx context.Context, measured string) error {
		size, err := measureImage.Result(ctx, amboy.QueueFromContext(ctx), measured)
		fmt.Println("the image has a size of", size)
		return err
	})

	cat, err := measureImage.Put(ctx, q, image{Path: "cat.png", Width: 8})
	must(err)
	_, err = announce.Put(ctx, q, cat, job.After(cat))
	must(err)
	q.RunAll(ctx)
	// Output: the image has a size of 64
}

// The error of a job without a result has the state of the job.
func ExampleNoResultError() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	_, err := measureImage.PutAndWait(ctx, q, image{Path: "dog.png"})
	var missing *job.NoResultError
	if errors.As(err, &missing) {
		fmt.Println(missing.State, errors.Unwrap(missing))
	}
	// Output: failed measuring "dog.png": width must be positive (is 0)
}

// A definition in a package-level variable can't report its error, so a service asks at its start.
func ExampleCheck() {
	twice := job.Define("say", 1, func(context.Context, string) error { return nil }) // the name is taken
	fmt.Println(twice.Err() != nil, job.Check() != nil)
	// Output: true true
}

// Declare a job where it is put, and bind its function where it runs.
func ExampleDeclare() {
	ctx := context.Background()
	archive := job.Declare[string]("example.archive", 1, job.Defaults[string]{MaxAttempts: 3})
	q := inline()
	defer q.Close(ctx)
	_, err := archive.Put(ctx, q, "report.pdf")
	must(err)
	fmt.Println(q.RunAll(ctx), "ran")

	must(archive.Bind(func(_ context.Context, path string) error {
		_, printErr := fmt.Println("archived", path)
		return printErr
	}))
	fmt.Println(q.RunAll(ctx), "ran")
	// Output:
	// 0 ran
	// archived report.pdf
	// 1 ran
}

// Declare a job with a result.
func ExampleDeclareResult() {
	ctx := context.Background()
	double := job.DeclareResult[int, int]("example.double", 1)
	must(double.Bind(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))

	q := started(ctx)
	defer q.Close(ctx)
	fmt.Println(double.PutAndWait(ctx, q, 21))
	// Output: 42 <nil>
}

// An ID that is derived from the work prevents duplicates.
func ExampleID() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	for range 2 {
		_, err := say.Put(ctx, q, "report", job.ID("report.2030-01-31"))
		fmt.Println(amboy.IsDuplicateJobError(err))
	}
	// Output:
	// false
	// true
}

// Run a job at a time.
func ExampleAt() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "lunch", job.At(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)))
	must(err)
	amboy.Wait(ctx, q) // an Inline queue advances its time
	fmt.Println(q.Now().Format(time.TimeOnly))
	// Output:
	// lunch
	// 12:00:00
}

// Find jobs by their tags.
func ExampleTags() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "hello", job.Tags("customer:7", "urgent"))
	must(err)
	fmt.Println(amboy.CountJobs(ctx, q, amboy.JobQuery{Tag: "customer:7"}))
	// Output: 1 <nil>
}

// Try a job up to three times.
func ExampleMaxAttempts() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	id, err := say.Put(ctx, q, "", job.MaxAttempts(3)) // fails
	must(err)
	amboy.Wait(ctx, q)
	j, _ := q.Get(ctx, id)
	fmt.Println("attempt", j.RetryInfo().CurrentAttempt, amboy.NewJobInfo(j).State) // the first is 0
	// Output: attempt 2 failed
}

// Limit how long a run may take.
func ExampleTimeout() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)
	wait := job.Define("example.wait", 1, func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(wait.PutAndWait(ctx, q, "", job.ID("wait"), job.Timeout(10*time.Millisecond)))
	// Output: job "wait" has no result; its state is failed: job ran longer than its maximum time of 10ms
}

// Give middleware and operators what they need to know of a job.
func ExampleMetadata() {
	j, err := say.New("hello", job.Metadata(map[string]string{"tenant": "acme"}))
	must(err)
	fmt.Println(amboy.MetadataOf(j)["tenant"])
	// Output: acme
}

// Keep a job for longer than its queue keeps others.
func ExampleRetention() {
	ctx := context.Background()
	q := started(ctx)
	defer q.Close(ctx)

	id, err := say.Put(ctx, q, "invoice", job.Retention(amboy.Retention{Succeeded: amboy.KeepForever}))
	must(err)
	must(say.Wait(ctx, q, id))
	// Output: invoice
}

// Ask a running job for its own ID and attempt.
func ExampleIDFrom() {
	ctx := context.Background()
	who := job.Define("example.who", 1, func(ctx context.Context, _ string) error {
		_, err := fmt.Println(job.IDFrom(ctx), "attempt", job.AttemptFrom(ctx))
		return err
	})
	q := inline()
	defer q.Close(ctx)
	_, err := who.Put(ctx, q, "", job.ID("me"))
	must(err)
	q.RunAll(ctx)
	// Output: me attempt 0
}

// The first attempt is number 0.
func ExampleAttemptFrom() {
	ctx := context.Background()
	flaky := job.Define("example.flaky", 1, func(ctx context.Context, _ string) error {
		if attempt := job.AttemptFrom(ctx); attempt < 2 {
			return fmt.Errorf("busy at attempt %d", attempt)
		}
		return nil
	}, job.Defaults[string]{MaxAttempts: 3})
	q := inline()
	defer q.Close(ctx)
	fmt.Println(flaky.PutAndWait(ctx, q, ""))
	// Output: <nil>
}

// Read the tags of the job that runs.
func ExampleFromContext() {
	ctx := context.Background()
	tagged := job.Define("example.tagged", 1, func(ctx context.Context, _ string) error {
		if j, ok := job.FromContext(ctx); ok {
			fmt.Println(amboy.TagsOf(j))
		}
		return nil
	})
	q := inline()
	defer q.Close(ctx)
	_, err := tagged.Put(ctx, q, "", job.Tags("urgent"))
	must(err)
	q.RunAll(ctx)
	// Output: [urgent]
}

// Write lines that operators see on the dashboard.
func ExampleLog() {
	ctx := context.Background()
	load := job.Define("example.load", 1, func(ctx context.Context, rows int) error {
		job.Log(ctx, "loading %d rows", rows)
		return nil
	})
	q := inline()
	defer q.Close(ctx)
	id, err := load.Put(ctx, q, 7)
	must(err)
	q.RunAll(ctx)
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.ProgressOf(j).Log[0].Text)
	// Output: loading 7 rows
}

// Put a job of a type that no Go program has to know, for a worker in another language.
func ExampleNewOutside() {
	payload := job.Payload{JSON: json.RawMessage(`{"path":"cat.png"}`)}
	j, err := job.NewOutside(amboy.JobType{Name: "measure", Version: 1}, payload, job.ID("cat"), job.MaxAttempts(5))
	must(err)
	fmt.Println(j.ID(), j.Type().Name, amboy.IsForOutside(j), amboy.RunsHere(j))
	// Output: cat measure true false
}

// A queue that stores jobs needs to know the types of this package.
func ExampleRegisterDefaultJobs() {
	ctx := context.Background()
	job.RegisterDefaultJobs()
	q := started(ctx)
	defer q.Close(ctx)
	j := job.NewShellJob("true", "")
	must(q.Put(ctx, j))
	amboy.WaitJob(ctx, j, q)
	ended, _ := q.Get(ctx, j.ID())
	fmt.Println(amboy.NewJobInfo(ended).State)
	// Output: succeeded
}

// End a job in the transaction that does its work: both are stored, or neither.
func ExampleCompleteIn() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	must(err)
	path := filepath.Join(dir, "shop.db")
	store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	must(err)
	shop, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(err)
	_, err = shop.ExecContext(ctx, "CREATE TABLE shipments (id TEXT)")
	must(err)
	ship := job.Define("example.ship", 1, func(ctx context.Context, order string) error {
		tx, failure := shop.BeginTx(ctx, nil)
		if failure != nil {
			return failure
		}
		defer tx.Rollback() //nolint:errcheck // It does nothing after the commit.
		_, failure = tx.ExecContext(ctx, "INSERT INTO shipments (id) VALUES (?)", order)
		if failure != nil {
			return failure
		}
		failure = job.CompleteIn(sqlite.WithTx(ctx, tx))
		if failure != nil {
			return failure
		}
		return tx.Commit()
	})

	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	fmt.Println(ship.PutAndWait(ctx, q, "order-1"))
	q.Close(ctx)
	var shipped int
	must(shop.QueryRowContext(ctx, "SELECT count(*) FROM shipments").Scan(&shipped))
	fmt.Println(shipped, "shipped")
	must(errors.Join(shop.Close(), os.RemoveAll(dir)))
	// Output:
	// <nil>
	// 1 shipped
}

// End a job in the transaction that does its work, with a result that depends on it.
func ExampleCompleteWithResultIn() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	must(err)
	path := filepath.Join(dir, "shop.db")
	store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	must(err)
	shop, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(err)
	_, err = shop.ExecContext(ctx, "CREATE TABLE invoices (number INTEGER PRIMARY KEY, customer TEXT)")
	must(err)
	bill := job.DefineResult("example.bill", 1, func(ctx context.Context, customer string) (number int64, err error) {
		tx, err := shop.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback() //nolint:errcheck // It does nothing after the commit.
		inserted, err := tx.ExecContext(ctx, "INSERT INTO invoices (customer) VALUES (?)", customer)
		if err != nil {
			return 0, err
		}
		number, err = inserted.LastInsertId()
		if err != nil {
			return 0, err
		}
		err = job.CompleteWithResultIn(sqlite.WithTx(ctx, tx), number)
		if err != nil {
			return 0, err
		}
		return number, tx.Commit()
	})

	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	number, err := bill.PutAndWait(ctx, q, "ann")
	must(err)
	fmt.Println("invoice", number)
	q.Close(ctx)
	must(errors.Join(shop.Close(), os.RemoveAll(dir)))
	// Output: invoice 1
}
