package amboy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/retry"
)

// step is a job that prints its argument.
var step = job.Define("amboy-example.step", 1, func(_ context.Context, name string) error {
	fmt.Println("running", name)
	return nil
})

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func putStep(ctx context.Context, q amboy.Queue, name string, opts ...job.Option) error {
	_, err := step.Put(ctx, q, name, opts...)
	return err
}

func ExamplePause() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	front, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1})
	must(err)
	back, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 4})
	must(err)
	must(back.Start(ctx))
	defer back.Close(ctx)
	defer front.Close(ctx)

	must(amboy.Pause(ctx, front)) // and every queue of that name on the store
	must(putStep(ctx, front, "waits"))
	control, err := amboy.ControlOf(ctx, back)
	must(err)
	fmt.Printf("%+v\n", control)
	fmt.Println(back.Stats(ctx).Pending)
	must(amboy.Resume(ctx, front))
	amboy.Wait(ctx, back)
	// Output:
	// {Paused:true Draining:false MaxRunning:0 Rate:<nil> Types:map[]}
	// 1
	// running waits
}

// A queue that is drained runs the jobs that it has, and refuses new ones.
func ExampleDrain() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(putStep(ctx, q, "early"))
	must(amboy.Drain(ctx, q))
	err = putStep(ctx, q, "late")
	amboy.Wait(ctx, q)
	fmt.Println(errors.Is(err, amboy.ErrQueueDraining), q.Stats(ctx).IsIdle())
	must(amboy.Resume(ctx, q))
	must(putStep(ctx, q, "late"))
	amboy.Wait(ctx, q)
	// Output:
	// running early
	// true true
	// running late
}

// The limit applies to all processes that share a store.
func ExampleSetMaxRunning() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetMaxRunning(ctx, q, 1)) // of the four workers
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.MaxRunning)
	fmt.Println(amboy.SetMaxRunning(ctx, q, -1) != nil)
	must(amboy.SetMaxRunning(ctx, q, 0)) // takes it back
	// Output:
	// 1
	// true
}

// The rate applies to all processes that share a store.
func ExampleSetRate() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetRate(ctx, q, &amboy.Rate{PerSecond: 0.001})) // a job in 1,000 seconds
	must(putStep(ctx, q, "first"))
	must(putStep(ctx, q, "second"))
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.Rate)
	must(amboy.SetRate(ctx, q, nil)) // takes it back
	amboy.Wait(ctx, q)
	// Unordered output:
	// running first
	// 0.001/s, bursts of 1
	// running second
}

// One of two jobs of a type runs at a time, and jobs of other types do not wait for them.
func ExampleLimitType() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(amboy.LimitType(ctx, q, step.Type().Name, amboy.TypeLimit{MaxRunning: 1}))
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.Types[step.Type().Name].MaxRunning)

	must(putStep(ctx, q, "first"))
	must(putStep(ctx, q, "second"))
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// 1
	// running first
	// running second
}

// Jobs are found by their tags, states and types.
func ExampleFindJobs() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 100)
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.ID("invoice-1"), job.Tags("customer:7")))
	must(putStep(ctx, q, "two", job.ID("invoice-2"), job.Tags("customer:7")))
	must(putStep(ctx, q, "report"))

	ofCustomer := amboy.JobQuery{Tag: "customer:7", States: []amboy.JobState{amboy.StatePending}}
	for info, err := range amboy.FindJobs(ctx, q, ofCustomer) {
		must(err)
		fmt.Println(info.ID, info.Tags)
	}
	n, err := amboy.CountJobs(ctx, q, amboy.JobQuery{})
	must(err)
	fmt.Println(n, "in all")
	// Output:
	// invoice-1 [customer:7]
	// invoice-2 [customer:7]
	// 3 in all
}

// New workers start at once. Surplus workers end after their current job.
func ExampleSetWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetWorkers(q, 2))
	fmt.Println(amboy.Workers(q))
	fmt.Println(amboy.SetWorkers(q, 0) != nil)
	// Output:
	// 2
	// true
}

var (
	begun  = make(chan struct{})
	finish = make(chan struct{}, 1)
)

// slow is a job that ends when the example says so, or when its context ends.
var slow = job.Define("amboy-example.slow", 1, func(ctx context.Context, name string) error {
	begun <- struct{}{}
	select {
	case <-finish:
		fmt.Println("ended", name)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
})

// Stop a service: running jobs have half a minute to end.
func ExampleQueue_softStop() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q := queue.NewLocalLimitedSize(4, 1000)
	must(q.Start(context.WithoutCancel(ctx))) // not ended by the signal, but by Close

	_, err := slow.Put(ctx, q, "import")
	must(err)
	<-begun
	stop() // stands for the signal
	finish <- struct{}{}

	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	q.Close(patience)
	fmt.Println(errors.Is(putStep(patience, q, "late"), amboy.ErrQueueClosed))
	// Output:
	// ended import
	// true
}

// When its context ends, Close cancels the jobs and hands them back.
func ExampleQueue_hardStop() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	_, err := slow.Put(ctx, q, "import", job.ID("import"))
	must(err)
	<-begun

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	q.Close(patience)
	for info := range q.JobInfo(ctx) { // can be read after Close
		fmt.Println(info.ID, info.State, info.Status.ErrorCount)
	}
	// Output: import pending 0
}

// The IDs of the jobs make PutMany repeatable.
func ExampleQueue_putMany() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000) // accepts jobs before Start
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.ID("a")))

	a, err := step.New("one", job.ID("a"))
	must(err)
	b, err := step.New("two", job.ID("b"))
	must(err)
	err = q.PutMany(ctx, []amboy.Job{a, b})
	fmt.Println(err)
	fmt.Println(amboy.IsDuplicateJobError(err), q.Stats(ctx).Pending)
	// Output:
	// putting job "a": job "a" is in the queue already
	// true 2
}

// Finished jobs can be read, also after Close.
func ExampleQueue_results() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	_, err := call.Put(ctx, q, "https://example.com", job.ID("good"))
	must(err)
	_, err = call.Put(ctx, q, "", job.ID("bad"))
	must(err)
	amboy.Wait(ctx, q)
	q.Close(ctx)

	if j, ok := q.Get(ctx, "bad"); ok {
		fmt.Println(j.Error())
	}
	for j := range q.Results(ctx) {
		fmt.Println(j.ID(), amboy.NewJobInfo(j).State)
	}
	// Unordered output:
	// there is no such address
	// bad failed
	// good succeeded
}

// Let a queue in memory run its jobs before it is closed.
func ExampleWait() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	must(putStep(ctx, q, "tonight", job.ID("tonight"), job.In(time.Hour)))

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

// Put a job unless it exists.
func ExampleEnqueueUniqueJob() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	for range 2 {
		j, err := step.New("nightly", job.ID("nightly"))
		must(err)
		fmt.Println(amboy.EnqueueUniqueJob(ctx, q, j))
	}
	err := putStep(ctx, q, "nightly", job.ID("nightly"))
	fmt.Println(amboy.IsDuplicateJobError(err), err)
	// Output:
	// <nil>
	// <nil>
	// true putting job "nightly": job "nightly" is in the queue already
}

// Jobs that depend on each other in a circle are refused.
func ExampleDependencyCycleError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	a, err := step.New("a", job.ID("a"), job.After("b"))
	must(err)
	b, err := step.New("b", job.ID("b"), job.After("a"))
	must(err)
	var cycle *amboy.DependencyCycleError
	if errors.As(q.PutMany(ctx, []amboy.Job{a, b}), &cycle) {
		fmt.Println(cycle.Path)
	}
	// Output: [a b a]
}

// Limit how long a job may run.
func ExampleMaxTimeError() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	id, err := slow.Put(ctx, q, "import", job.Timeout(10*time.Millisecond))
	must(err)
	<-begun
	var tooLong *amboy.MaxTimeError
	if errors.As(slow.Wait(ctx, q, id), &tooLong) {
		fmt.Println(tooLong)
	}
	// Output: job ran longer than its maximum time of 10ms
}

var errNoSuchAddress = errors.New("there is no such address")

// call fails for an address that does not exist, and in the first attempts for any other.
var call = job.Define("amboy-example.call", 1, func(ctx context.Context, address string) error {
	if address == "" {
		return amboy.NonRetryable(errNoSuchAddress)
	}
	if attempt := job.AttemptFrom(ctx); attempt < 2 {
		return fmt.Errorf("busy at attempt %d", attempt)
	}
	return nil
}, job.Defaults[string]{
	MaxAttempts: 5,
	RetryPolicy: retry.Exponential{Base: 10 * time.Millisecond, Max: time.Minute, Jitter: 0.2},
})

// A job that is tried again, and a job whose error no other attempt would fix.
func ExampleNonRetryable() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	for _, address := range []string{"https://example.com", ""} {
		id, err := call.Put(ctx, q, address)
		must(err)
		amboy.Wait(ctx, q)

		j, _ := q.Get(ctx, id)
		fmt.Println("attempt", j.RetryInfo().CurrentAttempt, amboy.NewJobInfo(j).State)
		for _, failure := range j.Status().Attempts {
			fmt.Println(failure.Attempt, failure.Error)
		}
	}
	// Output:
	// attempt 2 succeeded
	// 0 busy at attempt 0
	// 1 busy at attempt 1
	// attempt 0 failed
	// 0 there is no such address
}

// Follow the events of a queue.
func ExampleSubscribe() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	events, cancel, err := amboy.Subscribe(q, 100)
	must(err)
	defer cancel()
	must(q.Start(ctx))

	_, err = call.Put(ctx, q, "https://example.com", job.ID("call"))
	must(err)
	amboy.Wait(ctx, q)
	q.Close(ctx)
	for e := range events {
		if e.Missed > 0 {
			fmt.Println(e.Missed, "events were missed")
		}
		fmt.Println(e.Kind, e.JobID, e.Attempt, e.Err)
	}
	// Output:
	// put call 0 <nil>
	// started call 0 <nil>
	// retrying call 0 busy at attempt 0
	// started call 1 <nil>
	// retrying call 1 busy at attempt 1
	// started call 2 <nil>
	// succeeded call 2 <nil>
	// queue closed  0 <nil>
}

type tenantKey struct{}

// carriesTenant stores the tenant of a call of Put with the job, for its runs in any process.
var carriesTenant = amboy.Middleware{
	Put: func(next amboy.PutFunc) amboy.PutFunc {
		return func(ctx context.Context, jobs []amboy.Job) error {
			tenant, _ := ctx.Value(tenantKey{}).(string)
			for _, j := range jobs {
				if err := amboy.SetMetadata(j, "tenant", tenant); err != nil {
					return err
				}
			}
			return next(ctx, jobs)
		}
	},
	Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			return next(context.WithValue(ctx, tenantKey{}, amboy.MetadataOf(j)["tenant"]), j)
		}
	},
}

var whoAmI = job.Define("amboy-example.who-am-i", 1, func(ctx context.Context, _ struct{}) error {
	fmt.Println("runs for", ctx.Value(tenantKey{}))
	return nil
})

// Middleware carries a value from the caller of Put to the run of the job, even in another process.
func ExampleMetadataOf() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	must(amboy.Use(q, carriesTenant))
	must(q.Start(ctx))
	defer q.Close(ctx)
	_, err = whoAmI.Put(context.WithValue(ctx, tenantKey{}, "acme"), q, struct{}{})
	must(err)
	amboy.Wait(ctx, q)
	// Output: runs for acme
}

// List the jobs that wait, and what they wait for.
func ExampleJobInfo() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(putStep(ctx, q, "", job.ID("tonight"), job.In(time.Hour), job.Scopes("ledger"), job.EnqueueScopes(true)))
	must(putStep(ctx, q, "", job.ID("audit"), job.Scopes("ledger")))
	must(putStep(ctx, q, "", job.ID("mail"), job.After("audit")))
	for info := range q.JobInfo(ctx) {
		fmt.Printf("%s is %s: %q\n", info.ID, info.State, info.Status.Reason)
	}
	fmt.Println(q.Stats(ctx))
	// Output:
	// tonight is scheduled: ""
	// audit is blocked: "waits for scope \"ledger\""
	// mail is blocked: "waits for 1 of the 1 jobs that it depends on"
	// running='0', completed='0', retrying='0', pending='3', blocked='2', total='3'
}

// Put a job at intervals into a queue of a group.
func ExampleIntervalGroupQueueOperation() {
	ctx, cancel := context.WithCancel(context.Background())
	group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSize(2, 1000), nil
			},
		},
	})
	must(err)

	conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}
	amboy.IntervalGroupQueueOperation(ctx, group, 100*time.Millisecond, time.Now(), conf, amboy.GroupQueueOperation{
		Queue: "acme",
		Operation: func(ctx context.Context, q amboy.Queue) error {
			_, putErr := slow.Put(ctx, q, "clean-up", job.ID("clean-up"))
			return putErr
		},
	})
	<-begun
	finish <- struct{}{}
	cancel() // ends the periodic operation
	must(group.Close(context.Background()))
	// Output: ended clean-up
}

// split puts a job for each name. If it runs again after a crash, it puts only the missing ones.
var split = job.Define("amboy-example.split", 1, func(ctx context.Context, names []string) error {
	q := amboy.QueueFromContext(ctx)
	for _, name := range names {
		if err := putStep(ctx, q, name, job.ID(name)); err != nil && !amboy.IsDuplicateJobError(err) {
			return err
		}
	}
	return nil
})

// A job puts other jobs in its queue.
func ExampleQueueFromContext() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err := split.Put(ctx, q, []string{"one", "two"})
	must(err)
	amboy.Wait(ctx, q)
	// Output:
	// running one
	// running two
}

// Undo a pause.
func ExampleResume() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.Pause(ctx, q))
	must(putStep(ctx, q, "after the pause"))
	fmt.Println(q.Stats(ctx).Pending, "pending")
	must(amboy.Resume(ctx, q))
	amboy.Wait(ctx, q)
	// Output:
	// 1 pending
	// running after the pause
}

// Read what an operator has set.
func ExampleControlOf() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	must(amboy.SetMaxRunning(ctx, q, 8))
	must(amboy.Pause(ctx, q))
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.Paused, control.Draining, control.MaxRunning, control.IsZero())
	// Output: true false 8 false
}

// A rate has a burst: the number of jobs that may start at once after a pause.
func ExampleRate() {
	slow := amboy.Rate{PerSecond: 0.5}
	fast := amboy.Rate{PerSecond: 20, Burst: 100}
	fmt.Println(slow)
	fmt.Println(fast)
	fmt.Println(amboy.Rate{PerSecond: -1}.Validate() != nil)
	// Output:
	// 0.5/s, bursts of 1
	// 20/s, bursts of 100
	// true
}

// Count jobs by their states, types and tags.
func ExampleCountJobs() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.Tags("customer:7")))
	must(putStep(ctx, q, "two", job.In(time.Hour)))

	scheduled := []amboy.JobState{amboy.StateScheduled}
	for _, query := range []amboy.JobQuery{{}, {Tag: "customer:7"}, {States: scheduled}, {Types: []string{"no-such-type"}}} {
		n, err := amboy.CountJobs(ctx, q, query)
		must(err)
		fmt.Println(n)
	}
	// Output:
	// 2
	// 1
	// 1
	// 0
}

// Read the number of workers of a queue in this process.
func ExampleWorkers() {
	q := queue.NewLocalLimitedSize(4, 100)
	defer q.Close(context.Background())
	fmt.Println(amboy.Workers(q))
	// Output: 4
}

// The name of a queue in its store is the same in all processes. Its ID names one instance.
func ExampleNameOf() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	fmt.Println(amboy.NameOf(q), q.ID() == "mail")
	// Output: mail false
}

// Compute a time from the clock of the queue, which a test may control.
func ExampleNow() {
	ctx := context.Background()
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	must(err)
	defer q.Close(ctx)
	noon := amboy.Now(q).Truncate(24 * time.Hour).Add(12 * time.Hour)
	must(putStep(ctx, q, "lunch", job.At(noon)))
	amboy.Wait(ctx, q)
	fmt.Println(amboy.Now(q).Format(time.TimeOnly))
	// Output:
	// running lunch
	// 12:00:00
}

// Add middleware to a queue that was not started. The first surrounds the others.
func ExampleUse() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	named := func(name string) amboy.Middleware {
		return amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error {
				fmt.Println(name, "begins")
				err := next(ctx, j)
				fmt.Println(name, "ends")
				return err
			}
		}}
	}
	must(amboy.Use(q, named("outer"), named("inner")))
	must(q.Start(ctx))
	defer q.Close(ctx)
	must(putStep(ctx, q, "one"))
	amboy.Wait(ctx, q)
	// Output:
	// outer begins
	// inner begins
	// running one
	// inner ends
	// outer ends
}

// Wait for one job. Definition.Wait also returns the job's error.
func ExampleWaitJob() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	must(putStep(ctx, q, "tonight", job.In(time.Hour)))

	j, err := step.New("now")
	must(err)
	must(q.Put(ctx, j))
	fmt.Println(amboy.WaitJob(ctx, j, q), q.Stats(ctx).Pending, "pending")
	// Output:
	// running now
	// true 1 pending
}

// Wait until so many attempts have ended.
func ExampleWaitIntervalNum() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	must(putStep(ctx, q, "tonight", job.In(time.Hour)))
	must(putStep(ctx, q, "now"))
	fmt.Println(amboy.WaitIntervalNum(ctx, q, 10*time.Millisecond, 1))
	// Output:
	// running now
	// true
}

// Describe a job, for instance one that Get returned.
func ExampleNewJobInfo() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.ID("tonight"), job.In(time.Hour), job.Priority(3), job.Tags("batch")))

	if j, ok := q.Get(ctx, "tonight"); ok {
		info := amboy.NewJobInfo(j)
		fmt.Println(info.ID, info.Type.Name, info.State, info.Priority, info.Tags)
	}
	// Output: tonight amboy-example.step scheduled 3 [batch]
}

// A job has its priority, tags and metadata by interfaces that not every type implements.
func ExamplePriorityOf() {
	j, err := step.New("one", job.Priority(7), job.Tags("urgent"), job.Metadata(map[string]string{"tenant": "acme"}))
	must(err)
	fmt.Println(amboy.PriorityOf(j), amboy.TagsOf(j), amboy.MetadataOf(j))
	// Output: 7 [urgent] map[tenant:acme]
}

func ExampleTagsOf() {
	j, err := step.New("one", job.Tags("customer:7", "urgent"))
	must(err)
	fmt.Println(amboy.TagsOf(j))
	// Output: [customer:7 urgent]
}

// Read what a job has reported.
func ExampleProgressOf() {
	ctx := context.Background()
	load := job.Define("amboy-example.load", 1, func(ctx context.Context, _ string) error {
		job.Log(ctx, "read %d rows", 3)
		return job.SetProgress(ctx, 0.5, "half way")
	})
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	id, err := load.Put(ctx, q, "")
	must(err)
	amboy.Wait(ctx, q)

	j, _ := q.Get(ctx, id)
	progress := amboy.ProgressOf(j)
	fmt.Println(progress.Fraction, progress.Message, progress.Log[0].Text)
	// Output: 0.5 half way read 3 rows
}

// The states in the order of a job's life.
func ExampleJobStates() {
	for _, state := range amboy.JobStates() {
		if state.IsFinal() {
			fmt.Println(state)
		}
	}
	// Output:
	// succeeded
	// failed
	// canceled
	// expired
}

// Run jobs in a test, without a queue.
func ExampleRunJob() {
	for _, address := range []string{"https://example.com", ""} {
		j, err := call.New(address)
		must(err)
		fmt.Println(amboy.RunJob(context.Background(), j))
	}
	// Output:
	// busy at attempt 0
	// there is no such address
}

// The error names the job that exists, and the reason.
func ExampleDuplicateJobError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	once := job.Unique(job.Uniqueness{Args: true})
	must(putStep(ctx, q, "report", job.ID("first"), once))

	err := putStep(ctx, q, "report", job.ID("second"), once)
	var duplicate *amboy.DuplicateJobError
	if errors.As(err, &duplicate) {
		fmt.Println(duplicate.JobID, duplicate.ExistingID, duplicate.Reason)
	}
	// Output: second first unique_key
}

// A duplicate is often no error: the work is in the queue already.
func ExampleIsDuplicateJobError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	for range 2 {
		err := putStep(ctx, q, "import", job.ID("import.2030-01-31"))
		fmt.Println(err == nil, amboy.IsDuplicateJobError(err))
	}
	// Output:
	// true false
	// false true
}

// Another job holds a scope that Put would take.
func ExampleIsDuplicateJobScopeError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)

	for range 2 {
		err := putStep(ctx, q, "close", job.Scopes("account 7"), job.EnqueueScopes(true))
		fmt.Println(err == nil, amboy.IsDuplicateJobScopeError(err))
	}
	// Output:
	// true false
	// false true
}

// A job may have been removed by the retention of its queue.
func ExampleIsJobNotFoundError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	err := step.Wait(ctx, q, "no-such-job")
	fmt.Println(amboy.IsJobNotFoundError(err))
	// Output: true
}

// The error of a job may be wrapped.
func ExampleIsNonRetryable() {
	err := fmt.Errorf("calling: %w", amboy.NonRetryable(errNoSuchAddress))
	fmt.Println(amboy.IsNonRetryable(err), errors.Is(err, errNoSuchAddress), amboy.IsNonRetryable(errNoSuchAddress))
	// Output: true true false
}

// Put checks a job before it stores it.
func ExampleInvalidJobError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	err := putStep(ctx, q, "one", job.MaxAttempts(-1))
	var invalid *amboy.InvalidJobError
	fmt.Println(errors.As(err, &invalid), err)
	// Output: true making a job of type "amboy-example.step": invalid job: max attempts must not be negative (is -1)
}

// A job is not put if one that it depends on was not.
func ExampleDependencyNotPutError() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	must(putStep(ctx, q, "load", job.ID("load"), job.Scopes("ledger"), job.EnqueueScopes(true)))

	again, err := step.New("load again", job.ID("again"), job.Scopes("ledger"), job.EnqueueScopes(true))
	must(err)
	report, err := step.New("report", job.ID("report"), job.After("again"))
	must(err)
	err = q.PutMany(ctx, []amboy.Job{again, report})
	var notPut *amboy.DependencyNotPutError
	fmt.Println(errors.As(err, &notPut), notPut)
	// Output: true job "report" depends on job "again", which was not put
}

// Only if all errors are duplicates is the whole one.
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

// Put the jobs that are not in the queue yet.
func ExampleEnqueueManyUniqueJobs() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	must(putStep(ctx, q, "cat", job.ID("cat")))

	var jobs []amboy.Job
	for _, name := range []string{"cat", "dog"} {
		j, err := step.New(name, job.ID(name))
		must(err)
		jobs = append(jobs, j)
	}
	fmt.Println(amboy.EnqueueManyUniqueJobs(ctx, q, jobs), q.Stats(ctx).Pending)
	// Output: <nil> 2
}

// Put jobs from a channel until it is closed.
func ExamplePopulateQueue() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	jobs := make(chan amboy.Job, 2)
	for _, name := range []string{"cat", "dog"} {
		j, err := step.New(name)
		must(err)
		jobs <- j
	}
	close(jobs)
	fmt.Println(amboy.PopulateQueue(ctx, q, jobs), q.Stats(ctx).Pending)
	// Output: <nil> 2
}

// Collect the errors of the jobs that have ended.
func ExampleResolveErrors() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	must(putStep(ctx, q, "one"))
	_, err := call.Put(ctx, q, "", job.ID("call"))
	must(err)
	amboy.Wait(ctx, q)
	q.Close(ctx)
	fmt.Println(amboy.ResolveErrors(ctx, q))
	// Output:
	// running one
	// job "call": there is no such address
}

// List the IDs of the jobs by their progress, at most ten of each.
func ExampleReport() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	must(q.Start(ctx))
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.ID("now")))
	must(putStep(ctx, q, "two", job.ID("tonight"), job.In(time.Hour)))
	j, _ := q.Get(ctx, "now")
	amboy.WaitJob(ctx, j, q)

	report := amboy.Report(ctx, q, 10)
	fmt.Println(report.Completed, report.InProgress, report.Pending)
	// Output:
	// running one
	// [now] [] [tonight]
}

// Put a job at intervals. Its ID names the time, so several processes put it once.
func ExampleIntervalQueueOperation() {
	ctx, cancel := context.WithCancel(context.Background())
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(context.Background())
	events, unsubscribe, err := amboy.Subscribe(q, 100)
	must(err)
	defer unsubscribe()

	const interval = 10 * time.Millisecond // minutes or hours in a service
	conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}
	amboy.IntervalQueueOperation(ctx, q, interval, time.Now(), conf, func(ctx context.Context, q amboy.Queue) error {
		at := time.Now().Truncate(interval).Format(time.RFC3339Nano)
		return putStep(ctx, q, at, job.ID("clean-up."+at))
	})
	for range 3 {
		fmt.Println((<-events).Kind)
	}
	cancel() // ends the periodic operation
	// Output:
	// put
	// put
	// put
}

// newStep makes a job for a periodic operation.
func newStep(name string) amboy.Job {
	j, err := step.New(name, job.ID(name))
	must(err)
	return j
}

// Make an operation that puts a job.
func ExampleScheduleJobFactory() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	op := amboy.ScheduleJobFactory(func() amboy.Job { return newStep("cat") })
	fmt.Println(op(ctx, q), q.Stats(ctx).Pending)
	// Output: <nil> 1
}

// Make an operation that puts several jobs.
func ExampleScheduleManyJobsFactory() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	op := amboy.ScheduleManyJobsFactory(func() []amboy.Job { return []amboy.Job{newStep("cat"), newStep("dog")} })
	fmt.Println(op(ctx, q), q.Stats(ctx).Pending)
	// Output: <nil> 2
}

// Make one operation of several.
func ExampleGroupQueueOperationFactory() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	defer q.Close(ctx)
	op := amboy.GroupQueueOperationFactory(
		amboy.ScheduleJobFactory(func() amboy.Job { return newStep("cat") }),
		amboy.ScheduleJobFactory(func() amboy.Job { return newStep("dog") }),
	)
	fmt.Println(op(ctx, q), q.Stats(ctx).Pending)
	// Output: <nil> 2
}
