package river

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

var (
	jobs    = flag.Int("jobs", 20_000, "the number of jobs of a drain")
	putJobs = flag.Int("put.jobs", 4_000, "the number of jobs that are put one at a time")
)

// server is the connection string of the server; the benchmarks are skipped without it.
func server(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv("AMBOY_TEST_POSTGRES_URL")
	if url == "" {
		tb.Skip("AMBOY_TEST_POSTGRES_URL is not set")
	}
	return url
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// system is a measured job system.
type system interface {
	// put puts a number of jobs at once.
	put(ctx context.Context, n int) error
	// run runs jobs until a number of them have ended, counted by commits.
	run(ctx context.Context, n int) error
	close(ctx context.Context) error
}

type args struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "noop" }

var lastSchema atomic.Int64

func newSchema() string { return fmt.Sprintf("bench_%d_%d", os.Getpid(), lastSchema.Add(1)) }

func newPool(ctx context.Context, tb testing.TB, schema string) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(server(tb))
	check(tb, err)
	config.MaxConns = 20
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// counter counts runs of jobs.
type counter struct {
	atomic.Int64
	goal    int64         // set before the first run
	reached chan struct{} // closed by the run that reaches the goal
}

func newCounter() *counter { return &counter{reached: make(chan struct{})} }

func (c *counter) ran() {
	if c.Add(1) == c.goal {
		close(c.reached)
	}
}

// wait waits until the goal is reached.
func (c *counter) wait(ctx context.Context) error {
	select {
	case <-c.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended waits until the ends of jobs that have run are committed. It asks the server, because
// no event that both systems have costs both the same.
func ended(ctx context.Context, pool *pgxpool.Pool, query string, want int) error {
	for {
		var n int
		if err := pool.QueryRow(ctx, query).Scan(&n); err != nil {
			return err
		}
		if n >= want {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ours is a queue on amboy's driver.
type ours struct {
	pool   *pgxpool.Pool
	schema string
	queue  amboy.RetryableQueue
	n      atomic.Int64
	ended  *counter
}

var (
	noop    = job.Define("noop", 1, func(context.Context, args) error { current.Load().ended.ran(); return nil })
	current atomic.Pointer[ours]
)

func newOurs(ctx context.Context, tb testing.TB, workers int) system {
	o := &ours{schema: newSchema(), ended: newCounter()}
	o.pool = newPool(ctx, tb, o.schema)
	d, err := postgres.Open(ctx, postgres.Options{Pool: o.pool, Schema: o.schema})
	check(tb, err)
	o.queue, err = queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, Name: "bench", NumWorkers: workers})
	check(tb, err)
	current.Store(o)
	return o
}

func (o *ours) put(ctx context.Context, n int) error {
	list := make([]amboy.Job, n)
	for i := range list {
		j, err := noop.New(args{int(o.n.Add(1))})
		if err != nil {
			return err
		}
		list[i] = j
	}
	if n == 1 {
		return o.queue.Put(ctx, list[0])
	}
	return o.queue.PutMany(ctx, list)
}

func (o *ours) run(ctx context.Context, n int) error {
	o.ended.goal = int64(n)
	if err := o.queue.Start(ctx); err != nil {
		return err
	}
	if err := o.ended.wait(ctx); err != nil {
		return err
	}
	return ended(ctx, o.pool, "SELECT count(*) FROM jobs WHERE place >= 8", n)
}

func (o *ours) close(ctx context.Context) error {
	o.queue.Close(ctx)
	_, err := o.pool.Exec(ctx, "DROP SCHEMA "+o.schema+" CASCADE")
	return err
}

// theirs is a client of River.
type theirs struct {
	pool   *pgxpool.Pool
	schema string
	client *river.Client[pgx.Tx]
	n      atomic.Int64
	ended  *counter
}

type worker struct {
	river.WorkerDefaults[args]
	of *theirs
}

func (w *worker) Work(context.Context, *river.Job[args]) error {
	w.of.ended.ran()
	return nil
}

func newRiver(ctx context.Context, tb testing.TB, workers int) system {
	r := &theirs{schema: newSchema(), ended: newCounter()}
	r.pool = newPool(ctx, tb, r.schema)
	_, err := r.pool.Exec(ctx, "CREATE SCHEMA "+r.schema)
	check(tb, err)
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: r.schema, Logger: quiet()})
	check(tb, err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	check(tb, err)
	all := river.NewWorkers()
	river.AddWorker(all, &worker{of: r})
	r.client, err = river.NewClient(driver, &river.Config{
		Schema: r.schema, Workers: all, Logger: quiet(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
	})
	check(tb, err)
	return r
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *theirs) put(ctx context.Context, n int) error {
	if n == 1 {
		_, err := r.client.Insert(ctx, args{int(r.n.Add(1))}, nil)
		return err
	}
	list := make([]river.InsertManyParams, n)
	for i := range list {
		list[i].Args = args{int(r.n.Add(1))}
	}
	_, err := r.client.InsertManyFast(ctx, list)
	return err
}

func (r *theirs) run(ctx context.Context, n int) error {
	r.ended.goal = int64(n)
	if err := r.client.Start(ctx); err != nil {
		return err
	}
	if err := r.ended.wait(ctx); err != nil {
		return err
	}
	return ended(ctx, r.pool, "SELECT count(*) FROM river_job WHERE state = 'completed'", n)
}

func (r *theirs) close(ctx context.Context) error {
	err := r.client.Stop(ctx)
	if err == nil {
		_, err = r.pool.Exec(ctx, "DROP SCHEMA "+r.schema+" CASCADE")
	}
	return err
}

var systems = []struct {
	name string
	open func(ctx context.Context, tb testing.TB, workers int) system
}{{"amboy", newOurs}, {"river", newRiver}}

// load returns the load average of the machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:2], " ")
}

// BenchmarkDrain runs no-op jobs that were put 1,000 at a time.
func BenchmarkDrain(b *testing.B) {
	for _, workers := range []int{8, 64} {
		for _, s := range systems {
			b.Run(fmt.Sprintf("%s/workers=%d", s.name, workers), func(b *testing.B) {
				ctx := context.Background()
				for b.Loop() {
					b.StopTimer()
					it := s.open(ctx, b, workers)
					for range *jobs / 1000 {
						check(b, it.put(ctx, 1000))
					}
					b.StartTimer()
					check(b, it.run(ctx, *jobs))
					b.StopTimer()
					check(b, it.close(ctx))
					b.StartTimer()
				}
				b.ReportMetric(float64(*jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
				b.Logf("load %s", load())
			})
		}
	}
}

// BenchmarkPut puts jobs one at a time, from 8 goroutines, while none runs.
func BenchmarkPut(b *testing.B) {
	for _, s := range systems {
		b.Run(s.name, func(b *testing.B) {
			ctx := context.Background()
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				it := s.open(ctx, b, 8)
				var mu sync.Mutex
				var all sync.WaitGroup
				b.StartTimer()
				for range 8 {
					all.Go(func() {
						for range *putJobs / 8 {
							begin := time.Now()
							if err := it.put(ctx, 1); err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							took = append(took, time.Since(begin))
							mu.Unlock()
						}
					})
				}
				all.Wait()
				b.StopTimer()
				check(b, it.close(ctx))
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.Logf("load %s", load())
		})
	}
}
