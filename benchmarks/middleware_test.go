package benchmarks

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// passing is a middleware that only calls the next one.
func passing() amboy.Middleware {
	return amboy.Middleware{
		Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error { return next(ctx, j) }
		},
		Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error { return next(ctx, jobs) }
		},
	}
}

// BenchmarkMiddleware measures the cost per job of five middlewares that do nothing, around Put
// and Run.
func BenchmarkMiddleware(b *testing.B) {
	five := []amboy.Middleware{passing(), passing(), passing(), passing(), passing()}
	run, err := amboy.ChainRun(five...)
	require.NoError(b, err)
	accept := func(context.Context, []amboy.Job) error { return nil }
	put, err := amboy.ChainPut(accept, five...)
	require.NoError(b, err)
	ctx, j := b.Context(), newTask(func() {})

	// They alternate, so that other load on the machine affects both.
	const calls = 100_000
	var with, without samples
	for b.Loop() {
		without = append(without, timeCalls(calls, func() {
			if accept(ctx, []amboy.Job{j}) != nil || amboy.RunAttempt(ctx, j) != nil {
				b.Fatal("the job failed")
			}
		}))
		with = append(with, timeCalls(calls, func() {
			if put(ctx, []amboy.Job{j}) != nil || run(ctx, j) != nil {
				b.Fatal("the job failed")
			}
		}))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(with.quantile(0.5)-without.quantile(0.5))/calls, "five-ns/job")
}

func timeCalls(n int, call func()) time.Duration {
	begin := time.Now()
	for range n {
		call()
	}
	return time.Since(begin)
}

// BenchmarkEvents is BenchmarkDrain with 8 workers, for a queue without a subscriber, with one
// that reads its events, and with one that does not.
func BenchmarkEvents(b *testing.B) {
	const jobs = 100_000
	took := map[string]samples{}
	for b.Loop() {
		for name, subscribe := range subscribers {
			runtime.GC()
			took[name] = append(took[name], drainSubscribed(b, jobs, subscribe))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, s := range took {
		b.ReportMetric(s.rate(jobs), name+"-jobs/s")
	}
}

// subscribers subscribe to a queue. They return a function that waits until they are done after
// the queue is closed.
var subscribers = map[string]func(tb testing.TB, q amboy.Queue) (wait func()){
	"no-subscriber": func(testing.TB, amboy.Queue) func() { return func() {} },
	"reader": func(tb testing.TB, q amboy.Queue) func() {
		events, _, err := amboy.Subscribe(q, 1000)
		require.NoError(tb, err)
		var reader sync.WaitGroup
		reader.Go(func() {
			for range events { //nolint:revive // It only reads.
			}
		})
		return reader.Wait
	},
	"sleeper": func(tb testing.TB, q amboy.Queue) func() {
		_, _, err := amboy.Subscribe(q, 1000)
		require.NoError(tb, err)
		return func() {}
	},
}

func drainSubscribed(tb testing.TB, jobs int, subscribe func(testing.TB, amboy.Queue) func()) time.Duration {
	q := start(tb, queue.NewLocalLimitedSize(8, jobs))
	wait := subscribe(tb, q)
	defer wait()
	defer q.Close(tb.Context())
	var running sync.WaitGroup
	running.Add(jobs)
	tasks := newTasks(jobs, running.Done)

	begin := time.Now()
	for _, t := range tasks {
		put(tb, q, t)
	}
	running.Wait()
	return time.Since(begin)
}
