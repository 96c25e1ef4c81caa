package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

// The pages in docs/ quote these examples. Here and there, must stands for the handling
// of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// resize is a job type of a service: its own fields, the embedded job.Base, and Run.
type resize struct {
	job.Base `bson:"job_base" json:"job_base"`
	Path     string `bson:"path" json:"path"`
	Width    int    `bson:"width" json:"width"`
	// Size is the result, in bytes.
	Size int `bson:"size" json:"size"`
}

var resizeType = amboy.JobType{Name: "resize", Version: 1}

func init() {
	registry.AddJobType(resizeType.Name, func() amboy.Job {
		return &resize{Base: job.Base{JobType: resizeType}}
	})
}

func newResize(path string, width int) *resize {
	j := &resize{Base: job.Base{JobType: resizeType}, Path: path, Width: width}
	j.SetID(fmt.Sprintf("resize.%s.%d", path, width))
	return j
}

func (j *resize) Run(ctx context.Context) {
	defer j.MarkComplete()
	size, err := shrink(ctx, j.Path, j.Width)
	if err != nil {
		j.AddError(fmt.Errorf("resizing %q: %w", j.Path, err))
		return
	}
	j.Size = size
}

// shrink stands for the actual work.
func shrink(ctx context.Context, path string, width int) (size int, err error) {
	if filepath.Ext(path) != ".png" {
		return 0, errors.New("unknown picture format")
	}
	return 3 * width, context.Cause(ctx)
}

// step is a job that prints its ID.
type step struct {
	job.Base `bson:"job_base" json:"job_base"`
}

var stepType = amboy.JobType{Name: "step", Version: 1}

func init() {
	registry.AddJobType(stepType.Name, func() amboy.Job { return newStep("") })
}

func newStep(id string) *step {
	return &step{Base: job.Base{JobType: stepType, Name: id}}
}

func (j *step) Run(context.Context) {
	defer j.MarkComplete()
	fmt.Println("running", j.ID())
}

// download is a job that fails in its first two attempts.
type download struct {
	job.Base `bson:"job_base" json:"job_base"`
}

var downloadType = amboy.JobType{Name: "download", Version: 1}

func init() {
	registry.AddJobType(downloadType.Name, func() amboy.Job { return newDownload("") })
}

func newDownload(id string) *download {
	return &download{Base: job.Base{JobType: downloadType, Name: id}}
}

func (j *download) Run(context.Context) {
	defer j.MarkComplete()
	if attempt := j.RetryInfo().CurrentAttempt; attempt < 2 {
		j.AddRetryableError(fmt.Errorf("server is busy at attempt %d", attempt))
	}
}

// watch is a job that runs until it is told to stop, or its context ends. It contains
// channels, so only a queue that holds jobs by reference accepts it.
type watch struct {
	job.Base
	started, stop chan struct{}
}

func newWatch(id string) *watch {
	return &watch{
		Base:    job.Base{Name: id},
		started: make(chan struct{}),
		stop:    make(chan struct{}),
	}
}

func (j *watch) Run(ctx context.Context) {
	defer j.MarkComplete()
	close(j.started)
	select {
	case <-j.stop:
	case <-ctx.Done():
		j.AddError(context.Cause(ctx))
	}
}

// Run a job.
func Example() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000) // workers, capacity
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(q.Put(ctx, newResize("cat.png", 64)))
	fmt.Println(amboy.Wait(ctx, q), q.Stats(ctx))
	// Output: true running='0', completed='1', retrying='0', pending='0', blocked='0', total='1'
}

// Read the results of a job.
func Example_results() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	must(q.PutMany(ctx, []amboy.Job{newResize("cat.png", 64), newResize("dog.doc", 64)}))
	amboy.Wait(ctx, q)

	if j, ok := q.Get(ctx, "resize.cat.png.64"); ok {
		fmt.Println(j.(*resize).Size, j.Error())
	}
	for j := range q.Results(ctx) {
		fmt.Println(j.ID(), amboy.NewJobInfo(j).State)
	}
	fmt.Println(amboy.ResolveErrors(ctx, q))
	// Output:
	// 192 <nil>
	// resize.cat.png.64 succeeded
	// resize.dog.doc.64 failed
	// job "resize.dog.doc.64": resizing "dog.doc": unknown picture format
}

// Limit how long a job may run.
func Example_maxTime() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	j := newWatch("watch")
	j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: 10 * time.Millisecond})
	must(q.Put(ctx, j))
	amboy.WaitJob(ctx, j, q)
	fmt.Println(j.Error())
	// Output: job ran longer than its maximum time of 10ms
}

// Choose the options of a queue that holds jobs by reference.
func ExampleNewLocal() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers:     1,
		Capacity:       1000, // of waiting jobs
		KeepFinished:   50,
		PutBeforeStart: true,
	})
	must(err)
	_, err = note.Put(ctx, q, "first")
	must(err)
	_, err = note.Put(ctx, q, "second")
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)

	_, err = queue.NewLocal(queue.LocalOptions{})
	fmt.Println(err)
	// Output:
	// first
	// second
	// invalid local queue options: NumWorkers must be at least 1 (is 0)
}

// A queue that holds stored forms returns copies.
func ExampleNewLocalLimitedSizeSerializable() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000) // workers, capacity
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	put := newResize("cat.png", 64)
	must(q.Put(ctx, put))
	amboy.WaitJob(ctx, put, q)
	got, _ := q.Get(ctx, put.ID())
	fmt.Println(put.Size, got.(*resize).Size)
	// Output: 0 192
}

// Let several queues work on one store.
func Example_sharedStore() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{Capacity: 1000, KeepFinished: 1000})
	must(err)
	front, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1})
	must(err)
	must(front.SetRunner(pool.NewNoop())) // it only puts
	back, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 4})
	must(err)
	must(front.Start(ctx))
	defer front.Close(ctx)
	must(back.Start(ctx))
	defer back.Close(ctx)

	must(front.Put(ctx, newStep("shared")))
	amboy.Wait(ctx, back)
	j, _ := front.Get(ctx, "shared")
	fmt.Println(j.Status().Owner == back.ID())
	// Output:
	// running shared
	// true
}

// Put blocks while the queue is full.
func Example_fullQueue() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1)
	must(q.Start(ctx))
	defer q.Close(ctx)
	running := newWatch("running")
	must(q.Put(ctx, running))
	<-running.started
	must(q.Put(ctx, newStep("waiting")))

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	err := q.Put(patience, newStep("one too many"))
	fmt.Println(err)

	close(running.stop)
	must(q.Put(ctx, newStep("another")))
	amboy.Wait(ctx, q)
	// Output:
	// putting job "one too many": waiting for room in the queue: context deadline exceeded
	// running waiting
	// running another
}

// Put a job unless it exists.
func Example_enqueueUniqueJob() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	fmt.Println(amboy.EnqueueUniqueJob(ctx, q, newStep("nightly")))
	fmt.Println(amboy.EnqueueUniqueJob(ctx, q, newStep("nightly")))
	err := q.Put(ctx, newStep("nightly"))
	fmt.Println(amboy.IsDuplicateJobError(err), err)
	// Output:
	// <nil>
	// <nil>
	// true putting job "nightly": job "nightly" is in the queue already
}

// Run the important jobs first.
func ExampleNewLocalPriority() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	for id, priority := range map[string]int{"newsletter": -1, "receipt": 0, "password reset": 10} {
		j := newStep(id)
		j.SetPriority(priority)
		must(q.Put(ctx, j))
	}
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// running password reset
	// running receipt
	// running newsletter
}

// Run a job at a set time.
func Example_waitUntil() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	soon, later := newStep("soon"), newStep("later")
	soon.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(20 * time.Millisecond)})
	later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	must(q.PutMany(ctx, []amboy.Job{soon, later}))

	amboy.WaitJob(ctx, soon, q)
	times := soon.TimeInfo()
	fmt.Println("too early:", times.Start.Before(times.WaitUntil))
	fmt.Println("later is", amboy.NewJobInfo(later).State)
	// Output:
	// running soon
	// too early: false
	// later is scheduled
}

// Drop a job that could not start in time.
func Example_dispatchBy() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	busy := newWatch("busy")
	must(q.Put(ctx, busy))
	<-busy.started

	j := newStep("price of today")
	j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(10 * time.Millisecond)})
	must(q.Put(ctx, j))
	amboy.WaitJob(ctx, j, q)
	fmt.Println(amboy.NewJobInfo(j).State)

	close(busy.stop)
	// Output: expired
}

// Try a job again until it succeeds.
func Example_retry() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	j := newDownload("download.report")
	j.UpdateRetryInfo(amboy.JobRetryOptions{
		Retryable:   new(true),
		MaxAttempts: new(5),
		WaitUntil:   new(10 * time.Millisecond), // between two attempts
	})
	must(q.Put(ctx, j))
	amboy.Wait(ctx, q)

	last, _ := q.Get(ctx, j.ID())
	fmt.Println("attempt", last.RetryInfo().CurrentAttempt, amboy.NewJobInfo(last).State)
	for _, failure := range last.Status().Attempts {
		fmt.Println(failure.Attempt, failure.Error)
	}
	// Output:
	// attempt 2 succeeded
	// 0 server is busy at attempt 0
	// 1 server is busy at attempt 1
}

// A job whose attempts are used up has failed.
func Example_attemptsUsedUp() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	j := newDownload("download.report")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(2)})
	must(q.Put(ctx, j))
	amboy.WaitJob(ctx, j, q)

	attempts, err := q.GetAllAttempts(ctx, j.ID())
	must(err)
	for _, attempt := range attempts {
		fmt.Printf("%d %s: %q\n", attempt.RetryInfo().CurrentAttempt, amboy.NewJobInfo(attempt).State, attempt.Status().Errors)
	}
	// Output:
	// 0 failed: ["server is busy at attempt 0"]
	// 1 failed: ["server is busy at attempt 1"]
}

// Choose how a queue retries jobs.
func ExampleNewLocalLimitedSizeSerializableWithOptions() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{
		NumWorkers: 4,
		Capacity:   1000,
		Retryable: queue.RetryableQueueOptions{
			RetryHandler:                 amboy.RetryHandlerOptions{NumWorkers: 2},
			StaleRetryingMonitorInterval: 10 * time.Second,
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	j := newDownload("download.report")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	must(q.Put(ctx, j))
	amboy.WaitJob(ctx, j, q)
	fmt.Println(q.Stats(ctx).Completed, "attempts")
	// Output: 3 attempts
}

// Only one of the jobs that share a scope runs at a time.
func Example_scopes() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(2, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	first, second, other := newWatch("first"), newStep("second"), newStep("other")
	first.SetScopes([]string{"account 7"})
	second.SetScopes([]string{"account 7"})
	must(q.Put(ctx, first))
	<-first.started
	must(q.PutMany(ctx, []amboy.Job{second, other}))

	amboy.WaitJob(ctx, other, q) // there is a worker for it
	for info := range q.JobInfo(ctx) {
		if info.State == amboy.StateBlocked {
			fmt.Println(info.ID, info.Status.Reason)
		}
	}
	close(first.stop)
	amboy.Wait(ctx, q)
	// Output:
	// running other
	// second waits for scope "account 7"
	// running second
}

// Let a scope refuse the second job instead of making it wait.
func Example_enqueueScopes() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	first, second := newStep("refresh.1"), newStep("refresh.2")
	for _, j := range []amboy.Job{first, second} {
		j.SetScopes([]string{"refresh"})
		j.SetEnqueueAllScopes(true)
	}
	must(q.Put(ctx, first))
	err := q.Put(ctx, second)
	fmt.Println(amboy.IsDuplicateJobScopeError(err), err)
	fmt.Println(amboy.EnqueueUniqueJob(ctx, q, second) == nil)
	// Output:
	// true putting job "refresh.2": enqueue scope "refresh" of job "refresh.2" is held by job "refresh.1"
	// false
}

// Jobs that depend on each other may be put in any order.
func Example_dependencies() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	load, report, mail := newStep("load"), newStep("report"), newStep("mail")
	must(report.Dependency().AddEdge(load.ID()))
	must(mail.Dependency().AddEdge(report.ID()))
	must(q.PutMany(ctx, []amboy.Job{mail, report, load}))
	amboy.Wait(ctx, q)
	// Output:
	// running load
	// running report
	// running mail
}

// Choose what happens when a job that other jobs depend on fails.
func Example_failurePolicy() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	load := newResize("dog.doc", 64) // will fail
	report, cleanup := newStep("report"), newStep("cleanup")
	must(report.Dependency().AddEdge(load.ID()))
	edges := dependency.MakeAlways()
	edges.SetOnFailure(dependency.RunOnFailure)
	must(edges.AddEdge(load.ID()))
	cleanup.SetDependency(&edges)
	must(q.PutMany(ctx, []amboy.Job{load, report, cleanup}))
	amboy.Wait(ctx, q)

	fmt.Println(report.Error())
	// Output:
	// running cleanup
	// not run because jobs that it depends on did not succeed: ["resize.dog.doc.64"]
}

// Jobs that depend on each other in a circle are refused.
func Example_dependencyCycle() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	a, b, c := newStep("a"), newStep("b"), newStep("c")
	must(a.Dependency().AddEdge("b"))
	must(b.Dependency().AddEdge("a"))
	err := q.PutMany(ctx, []amboy.Job{a, b, c})
	amboy.Wait(ctx, q)
	var cycle *amboy.DependencyCycleError
	if errors.As(err, &cycle) {
		fmt.Println(cycle.Path)
	}
	// Output:
	// running c
	// [a b a]
}

// Put jobs one by one, before the jobs that they depend on.
func ExampleNewLocalOrdered() {
	ctx := context.Background()
	q := queue.NewLocalOrdered(1, 1000)
	second, first := newStep("second"), newStep("first")
	must(second.Dependency().AddEdge(first.ID()))
	must(q.Put(ctx, second))
	fmt.Println(q.Start(ctx) != nil) // "first" is missing

	must(q.Put(ctx, first))
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// true
	// running first
	// running second
}

// Skip a job whose file exists.
func Example_createsFile() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	dir, err := os.MkdirTemp("", "example")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()

	target := filepath.Join(dir, "small.png")
	must(os.WriteFile(target, nil, 0o600))
	j := newStep("make small.png")
	j.SetDependency(dependency.NewCreatesFile(target))
	must(q.Put(ctx, j))
	amboy.Wait(ctx, q)
	fmt.Println(amboy.NewJobInfo(j).State, j.TimeInfo().Start.IsZero())
	// Output: succeeded true
}

// Let a function decide when a job may run.
func Example_checkDependency() {
	var asked atomic.Int32
	dependency.RegisterCheck("second-time", func() dependency.CheckFunc {
		return func([]string) dependency.State {
			if asked.Add(1) < 2 {
				return dependency.Blocked
			}
			return dependency.Ready
		}
	})

	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	j := newStep("backup")
	j.SetDependency(dependency.NewCheckManager("second-time"))
	must(q.Put(ctx, j))
	amboy.Wait(ctx, q)
	fmt.Println("asked", asked.Load(), "times")
	// Output:
	// running backup
	// asked 2 times
}

// Limit how many jobs start in a period.
func Example_rateLimit() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000)
	// At most 100 starts a second, and up to 1+1 at once after idle time.
	runner, err := pool.NewRateLimitedWorkers(4, 100, time.Second, 1, q)
	must(err)
	must(q.SetRunner(runner))
	must(q.Start(ctx))
	defer q.Close(ctx)

	begin := time.Now()
	for i := range 5 {
		must(q.Put(ctx, newResize("cat.png", i)))
	}
	amboy.Wait(ctx, q)
	fmt.Println("took at least 30ms:", time.Since(begin) >= 30*time.Millisecond)
	// Output: took at least 30ms: true
}

// Change the number of workers while they run.
func Example_setWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	first, second := newWatch("first"), newWatch("second")
	must(q.PutMany(ctx, []amboy.Job{first, second}))
	<-first.started

	must(amboy.SetWorkers(q, 2))
	<-second.started
	fmt.Println(q.Stats(ctx).Running)

	close(first.stop)
	close(second.stop)
	// Output: 2
}

// Put jobs that another process runs.
func Example_noRunner() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.SetRunner(pool.NewNoop()))
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(q.Put(ctx, newStep("for others")))
	fmt.Println(q.Stats(ctx).Pending)
	// Output: 1
}

// oneWorker is a custom runner.
type oneWorker struct {
	mu      sync.Mutex
	queue   amboy.Queue
	started bool

	stop context.CancelFunc // ends the taking of jobs
	kill context.CancelFunc // ends the jobs
	gone chan struct{}      // closed when the worker has ended
}

func (w *oneWorker) Started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

func (w *oneWorker) SetQueue(q amboy.Queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return amboy.ErrAlreadyStarted
	}
	w.queue = q
	return nil
}

func (w *oneWorker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.queue == nil:
		return errors.New("starting runner: queue must be set")
	case w.started:
		return amboy.ErrAlreadyStarted
	}
	hard, kill := context.WithCancel(amboy.ContextWithQueue(ctx, w.queue))
	soft, stop := context.WithCancel(hard)
	w.started, w.stop, w.kill, w.gone = true, stop, kill, make(chan struct{})
	go w.work(soft, hard)
	return nil
}

func (w *oneWorker) Close(ctx context.Context) {
	w.mu.Lock()
	started := w.started
	w.started = false
	w.mu.Unlock()
	if !started {
		return
	}
	w.stop()
	select {
	case <-w.gone:
	case <-ctx.Done():
	}
	w.kill()
	<-w.gone
}

func (w *oneWorker) work(soft, hard context.Context) {
	defer close(w.gone)
	for {
		j := w.queue.Next(soft)
		if j == nil {
			return // soft has ended, or the queue is closed
		}
		if err := w.run(hard, j); err != nil {
			fmt.Printf("job %q has not ended: %v\n", j.ID(), err)
		}
	}
}

func (w *oneWorker) run(hard context.Context, j amboy.Job) error {
	ctx, cancel := hard, context.CancelFunc(func() {})
	if contexter, ok := w.queue.(amboy.JobContexter); ok {
		ctx, cancel = contexter.JobContext(hard, j)
	}
	defer cancel()
	runErr := amboy.RunFuncOf(w.queue)(ctx, j)

	// The queue must learn of the end even after a hard stop.
	ending, done := context.WithTimeout(context.WithoutCancel(hard), 10*time.Second)
	defer done()
	releaser, canRelease := w.queue.(amboy.JobReleaser)
	snoozer, canSnooze := w.queue.(amboy.JobSnoozer)
	var snooze *amboy.SnoozeError
	switch {
	case errors.Is(context.Cause(ctx), amboy.ErrLeaseLost):
		return amboy.ErrLeaseLost // another worker has the job
	case errors.As(runErr, &snooze) && canSnooze:
		return snoozer.Snooze(ending, j, snooze.Until)
	case hard.Err() != nil && canRelease:
		return releaser.Release(ending, j)
	default:
		return w.queue.Complete(ending, j)
	}
}

// Run jobs with a custom runner.
func Example_ownRunner() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	must(q.SetRunner(&oneWorker{}))
	must(q.PutMany(ctx, []amboy.Job{newStep("a"), newStep("b")}))
	must(q.Start(ctx))
	amboy.Wait(ctx, q)
	q.Close(ctx)
	fmt.Println(q.Stats(ctx).Completed, q.Runner().Started())
	// Output:
	// running a
	// running b
	// 2 false
}

// Give each tenant a queue.
func ExampleNewLocalQueueGroup_tenants() {
	ctx := context.Background()
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSizeSerializable(2, 1000)
			},
		},
		TTL: 10 * time.Minute, // a queue without work goes after that
	})
	must(err)
	large := &queue.LocalQueueOptions{
		Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocalLimitedSizeSerializable(16, 100_000)
		},
	}

	acme, err := group.Get(ctx, "acme", large) // made and started
	must(err)
	globex, err := group.Get(ctx, "globex")
	must(err)
	must(acme.Put(ctx, newResize("cat.png", 64)))
	must(globex.Put(ctx, newResize("cat.png", 64))) // the same ID in another queue
	fmt.Println(amboy.Wait(ctx, acme), amboy.Wait(ctx, globex))
	fmt.Println(group.Queues(ctx))
	must(group.Close(ctx))
	// Output:
	// true true
	// [acme globex]
}

// Put a job at intervals into a queue of a group.
func Example_periodicInGroup() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the periodic operation
	group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSize(2, 1000), nil
			},
		},
	})
	must(err)

	j := newWatch("cleanup")
	conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}
	amboy.IntervalGroupQueueOperation(ctx, group, 100*time.Millisecond, time.Now(), conf, amboy.GroupQueueOperation{
		Queue:     "acme",
		Operation: amboy.ScheduleJobFactory(func() amboy.Job { return j }),
	})

	<-j.started
	fmt.Println(group.Queues(ctx))
	close(j.stop)
	must(group.Close(context.Background()))
	// Output: [acme]
}

// A stored job whose type this process does not know is left to other processes. It runs
// here as soon as the type is registered.
func Example_unknownType() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1, CloseDriver: true})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	newer, err := registry.MakeJobInterchange(newStep("newer"), amboy.BSON) // as a newer process puts it
	must(err)
	newer.Type = "newer-step"
	_, err = store.Insert(ctx, []*driver.Record{newer})
	must(err)
	next := newStep("next")
	must(q.Put(ctx, next))
	amboy.WaitJob(ctx, next, q)
	for info := range q.JobInfo(ctx) {
		fmt.Println(info.ID, info.State)
	}

	registry.AddJobType("newer-step", func() amboy.Job { return newStep("") })
	fmt.Println(amboy.Wait(ctx, q))
	// Output:
	// running next
	// newer pending
	// next succeeded
	// running newer
	// true
}

// A stored job that can't be decoded is parked. It is released once it can be decoded.
func Example_parked() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	var repaired atomic.Bool
	must(registry.AddJobUpgrade("step", 0, func(map[string]any) error {
		if !repaired.Load() {
			return errors.New("there is no width")
		}
		return nil
	}))

	older, next := newStep("older"), newStep("next")
	older.SetType(amboy.JobType{Name: "step", Version: 0}) // version 1 is registered
	must(q.PutMany(ctx, []amboy.Job{older, next}))
	amboy.WaitJob(ctx, next, q)
	for info := range q.JobInfo(ctx) {
		if info.State == amboy.StateParked {
			fmt.Println(info.Status.Reason)
		}
	}

	repaired.Store(true)
	inspector, err := management.NewInspector(q)
	must(err)
	_, err = inspector.ActOn(ctx, "", "older", management.Action{Kind: management.Release})
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	// Output:
	// running next
	// stored form of job "older" of type "step" can't be read: upgrading it from version 0: there is no width
	// running older
	// true
}

// List the jobs that wait, and what they wait for.
func Example_jobInfo() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	tonight, audit, mail := newStep("tonight"), newStep("audit"), newStep("mail")
	tonight.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	tonight.SetScopes([]string{"ledger"})
	tonight.SetEnqueueAllScopes(true)
	audit.SetScopes([]string{"ledger"})
	must(mail.Dependency().AddEdge(audit.ID()))
	must(q.PutMany(ctx, []amboy.Job{tonight, audit, mail}))

	for info := range q.JobInfo(ctx) {
		fmt.Printf("%s is %s: %q\n", info.ID, info.State, info.Status.Reason)
	}
	fmt.Println(amboy.Report(ctx, q, 2).Pending) // at most two
	fmt.Println(q.Stats(ctx))
	// Output:
	// tonight is scheduled: ""
	// audit is blocked: "waits for scope \"ledger\""
	// mail is blocked: "waits for 1 of the 1 jobs that it depends on"
	// [tonight audit]
	// running='0', completed='0', retrying='0', pending='3', blocked='2', total='3'
}

// Log the start and the end of each job.
func Example_debugLog() {
	service := grip.GetSender()
	levels := service.Level()
	recorder := send.MakeInternalLogger()
	must(grip.SetSender(recorder))
	must(grip.GetSender().SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Debug}))

	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	must(q.PutMany(ctx, []amboy.Job{newResize("cat.png", 64), newResize("dog.doc", 64)}))
	amboy.Wait(ctx, q)
	q.Close(ctx)

	must(grip.SetSender(service))
	must(service.SetLevel(levels))
	for recorder.HasMessage() {
		logged := recorder.GetMessage()
		if fields, ok := logged.Message.Raw().(message.Fields); ok {
			fmt.Println(logged.Priority, fields["message"], fields["job_id"])
		}
	}
	// Output:
	// debug job started resize.cat.png.64
	// debug job ended resize.cat.png.64
	// debug job started resize.dog.doc.64
	// error job failed resize.dog.doc.64
	// debug job ended resize.dog.doc.64
}

// Stop a service: running jobs have half a minute to end.
func Example_softStop() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q := queue.NewLocalLimitedSize(4, 1000)
	must(q.Start(context.WithoutCancel(ctx))) // not ended by the signal, but by Close

	running := newWatch("running")
	must(q.Put(ctx, running))
	<-running.started
	stop() // stands for the signal
	close(running.stop)

	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	q.Close(patience)
	fmt.Println(amboy.NewJobInfo(running).State)
	fmt.Println(q.Put(context.WithoutCancel(ctx), newStep("late")) != nil)
	// Output:
	// succeeded
	// true
}

// When its context ends, Close cancels the jobs and hands them back.
func Example_hardStop() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	running := newWatch("running")
	must(q.Put(ctx, running))
	<-running.started

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	q.Close(patience)
	for info := range q.JobInfo(ctx) { // can be read after Close
		fmt.Println(info.ID, info.State, info.Status.ErrorCount)
	}
	// Output: running pending 0
}

// Let a queue in memory run its jobs before it is closed.
func Example_drain() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	tonight := newStep("tonight")
	tonight.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	must(q.Put(ctx, tonight))

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if !amboy.Wait(patience, q) {
		fmt.Println("not all jobs have ended")
	}
	q.Close(patience)
	for info := range q.JobInfo(ctx) {
		if !info.State.IsFinal() {
			fmt.Println(info.ID, "is lost:", info.State)
		}
	}
	// Output:
	// not all jobs have ended
	// tonight is lost: scheduled
}
