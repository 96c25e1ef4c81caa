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

// step is a job of the examples.
var step = job.Define("amboy-example.step", 1, func(_ context.Context, name string) error {
	fmt.Println("running", name)
	return nil
})

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
				if m, ok := j.(amboy.MetadataJob); ok {
					m.SetMetadata("tenant", tenant)
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
