package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/retry"
)

var errNoSuchAddress = errors.New("there is no such address")

// call fails for an address that does not exist, and in the first attempts for any other.
var call = job.Define("example.call", 1, func(ctx context.Context, address string) error {
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

// A job that waits longer each time, and a job whose error no other attempt would fix.
func Example_retryPolicy() {
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

// Give a queue a retry policy for the jobs that have none.
func ExampleRetryableQueueOptions() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{
		NumWorkers: 4,
		Capacity:   1000,
		Retryable: queue.RetryableQueueOptions{
			RetryHandler: amboy.RetryHandlerOptions{RetryPolicy: retry.Polynomial{Unit: time.Millisecond}},
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	j := newDownload("download.report")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	must(q.Put(ctx, j))
	amboy.Wait(ctx, q)
	last, _ := q.Get(ctx, j.ID())
	fmt.Println("attempt", last.RetryInfo().CurrentAttempt, amboy.NewJobInfo(last).State)
	// Output: attempt 2 succeeded
}

// timing returns middleware that reports how jobs end.
func timing(tell func(id string, took time.Duration, err error)) amboy.Middleware {
	return amboy.Middleware{
		Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error {
				begin := time.Now()
				err := next(ctx, j)
				tell(j.ID(), time.Since(begin), err)
				return err
			}
		},
	}
}

// onlySmall returns middleware that refuses large batches.
func onlySmall(limit int) amboy.Middleware {
	return amboy.Middleware{
		Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error {
				if len(jobs) > limit {
					return fmt.Errorf("%d jobs at once are too many", len(jobs))
				}
				return next(ctx, jobs)
			}
		},
	}
}

func ExampleLocalOptions_middleware() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers: 1,
		Middleware: []amboy.Middleware{
			timing(func(id string, took time.Duration, err error) { fmt.Println(id, took >= 0, err) }),
			onlySmall(2),
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(q.PutMany(ctx, []amboy.Job{newStep("one"), newStep("two")}))
	fmt.Println(q.PutMany(ctx, []amboy.Job{newStep("three"), newStep("four"), newStep("five")}))
	amboy.Wait(ctx, q)
	// Unordered output:
	// 3 jobs at once are too many
	// running one
	// one true <nil>
	// running two
	// two true <nil>
}

// Middleware that carries a value from the caller of Put to the run of the job, even in
// another process.
func Example_metadata() {
	type tenantKey struct{}
	carriesTenant := amboy.Middleware{
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
	whoAmI := job.Define("example.who-am-i", 1, func(ctx context.Context, _ struct{}) error {
		fmt.Println("runs for", ctx.Value(tenantKey{}))
		return nil
	})

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

// Watch the events of a queue.
func Example_events() {
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
