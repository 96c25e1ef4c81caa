package river

import (
	"context"
	"errors"
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
	"github.com/mongodb/amboy/retry"
)

var keep = flag.Duration("keep", 0, "how long jobs that succeeded are kept; 0 for the default of each system")

const serverVariable = "AMBOY_TEST_POSTGRES_URL"

// server is the connection string of the server; the benchmarks are skipped without it.
func server(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv(serverVariable)
	if url == "" {
		tb.Skip(serverVariable + " is not set")
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
	// put puts a number of jobs at once, which are due at a time.
	put(ctx context.Context, n int, due time.Time) error
	// start starts the workers.
	start(ctx context.Context) error
	// ended returns the number of jobs that have ended, counted by commits.
	ended(ctx context.Context) (int, error)
	// beside returns a system on the same tables with other connections, which only puts jobs.
	beside(ctx context.Context, tb testing.TB) system
	common() *base
	close(ctx context.Context) error
}

// args are the arguments of a job.
type args struct {
	// At is when the job was put, or was due if that is later, in nanoseconds since 1970.
	At int64 `json:"at"`
	// Fails is true for a job whose first attempt fails.
	Fails bool `json:"fails,omitempty"`
	// Text makes the job larger.
	Text string `json:"text,omitempty"`
}

var lastSchema atomic.Int64

func newSchema() string { return fmt.Sprintf("bench_%d_%d", os.Getpid(), lastSchema.Add(1)) }

// finish closes a system and drops its schema.
func finish(ctx context.Context, tb testing.TB, s system) {
	tb.Helper()
	check(tb, s.close(ctx))
	_, err := s.common().pool.Exec(ctx, "DROP SCHEMA "+s.common().schema+" CASCADE")
	check(tb, err)
	s.common().pool.Close()
}

func newPool(ctx context.Context, tb testing.TB, schema string, traced *tracer) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(server(tb))
	check(tb, err)
	config.MaxConns = 20
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.ConnConfig.Tracer = traced
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// base is what both systems have.
type base struct {
	pool   *pgxpool.Pool
	schema string
	traced tracer
	fails  bool   // jobs fail once
	text   string // of each job

	mu   sync.Mutex
	late []time.Duration // from when each job was put or due to its run
}

func (b *base) common() *base { return b }

// argsNow returns the arguments of a job that is put now.
func (b *base) argsNow(due time.Time) args {
	now := time.Now()
	if due.After(now) {
		now = due
	}
	return args{At: now.UnixNano(), Fails: b.fails, Text: b.text}
}

var errFirstAttempt = errors.New("the first attempt fails")

// ran is called by each job.
func (b *base) ran(a args, attempt int) error {
	if a.Fails && attempt == 1 {
		return errFirstAttempt
	}
	late := time.Duration(time.Now().UnixNano() - a.At)
	b.mu.Lock()
	b.late = append(b.late, late)
	b.mu.Unlock()
	return nil
}

// latencies returns the times since the last call, sorted.
func (b *base) latencies() samples {
	b.mu.Lock()
	defer b.mu.Unlock()
	late := samples(b.late)
	b.late = nil
	slices.Sort(late)
	return late
}

// runs returns the number of jobs that have run since latencies was called.
func (b *base) runs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.late)
}

func (b *base) count(ctx context.Context, query string) (n int, err error) {
	err = b.pool.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// samples are sorted times.
type samples []time.Duration

func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (s samples) String() string {
	return fmt.Sprintf("%d times: p50 %s, p99 %s, most %s", len(s), s.quantile(0.5), s.quantile(0.99), s.quantile(1))
}

// tracer counts statements, and measures claims.
type tracer struct {
	statements atomic.Int64
	mu         sync.Mutex
	claims     samples
}

// isClaim finds the claims of both systems.
func isClaim(text string) bool {
	return strings.Contains(text, "LIMIT w.wanted") || strings.Contains(text, "JobGetAvailable")
}

type claimBegan struct{}

func (t *tracer) begin(ctx context.Context, texts ...string) context.Context {
	t.statements.Add(int64(len(texts)))
	if slices.ContainsFunc(texts, isClaim) {
		return context.WithValue(ctx, claimBegan{}, time.Now())
	}
	return ctx
}

func (t *tracer) end(ctx context.Context) {
	if began, ok := ctx.Value(claimBegan{}).(time.Time); ok {
		t.mu.Lock()
		t.claims = append(t.claims, time.Since(began))
		t.mu.Unlock()
	}
}

// claimTimes returns the times of claims since the last call, sorted.
func (t *tracer) claimTimes() samples {
	t.mu.Lock()
	defer t.mu.Unlock()
	claims := t.claims
	t.claims = nil
	slices.Sort(claims)
	return claims
}

func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.begin(ctx, data.SQL)
}

func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { t.end(ctx) }

func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	texts := make([]string, len(data.Batch.QueuedQueries))
	for i, query := range data.Batch.QueuedQueries {
		texts[i] = query.SQL
	}
	return t.begin(ctx, texts...)
}

func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (t *tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { t.end(ctx) }

// await waits until a condition holds. It polls, because no event that both systems have costs
// both the same.
func await(ctx context.Context, tb testing.TB, holds func() (bool, error)) {
	tb.Helper()
	for {
		done, err := holds()
		check(tb, err)
		if done {
			return
		}
		check(tb, ctx.Err())
		time.Sleep(2 * time.Millisecond)
	}
}

// awaitEnds waits until a number of jobs have run, and then until their ends are committed.
func awaitEnds(ctx context.Context, tb testing.TB, s system, ran, ended int) {
	tb.Helper()
	await(ctx, tb, func() (bool, error) { return s.common().runs() >= ran, nil })
	await(ctx, tb, func() (bool, error) {
		n, err := s.ended(ctx)
		return n >= ended, err
	})
}

// ours is a queue on amboy's driver.
type ours struct {
	*base
	queue amboy.RetryableQueue
}

var (
	noop    = job.Define("noop", 1, runOurs)
	retried = job.Define("retried", 1, runOurs, job.Defaults[args]{MaxAttempts: 2, RetryPolicy: retry.Fixed{}})
	current atomic.Pointer[ours] // whose jobs run
)

func runOurs(ctx context.Context, a args) error { return current.Load().ran(a, job.AttemptFrom(ctx)+1) }

func newOurs(ctx context.Context, tb testing.TB, workers int) system {
	o := openOurs(ctx, tb, newSchema(), workers)
	current.Store(o)
	return o
}

func openOurs(ctx context.Context, tb testing.TB, schema string, workers int) *ours {
	o := &ours{base: &base{schema: schema}}
	o.pool = newPool(ctx, tb, schema, &o.traced)
	d, err := postgres.Open(ctx, postgres.Options{Pool: o.pool, Schema: schema})
	check(tb, err)
	o.queue, err = queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: d, CloseDriver: true, Name: "bench", NumWorkers: workers, Retention: amboy.Retention{Succeeded: *keep},
	})
	check(tb, err)
	return o
}

func (o *ours) put(ctx context.Context, n int, due time.Time) error {
	list, kind := make([]amboy.Job, n), noop
	if o.fails {
		kind = retried
	}
	opts := []job.Option{job.At(due)}
	if *runBy > 0 {
		opts = append(opts, job.DispatchBy(time.Now().Add(*runBy)))
	}
	for i := range list {
		j, err := kind.New(o.argsNow(due), opts...)
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

func (o *ours) start(ctx context.Context) error { return o.queue.Start(ctx) }

func (o *ours) ended(ctx context.Context) (int, error) {
	return o.count(ctx, "SELECT count(*) FROM jobs WHERE place >= 8 AND NOT replaced")
}

// isDrained reports whether the end of each job is committed.
func (o *ours) isDrained() (bool, error) {
	left, err := o.count(context.Background(), "SELECT count(*) FROM (SELECT FROM jobs WHERE place < 8 LIMIT 1) left_over")
	return left == 0, err
}

func (o *ours) beside(ctx context.Context, tb testing.TB) system {
	return openOurs(ctx, tb, o.schema, 1)
}

func (o *ours) close(ctx context.Context) error {
	o.queue.Close(ctx)
	return nil
}

// theirs is a client of River.
type theirs struct {
	*base
	client *river.Client[pgx.Tx]
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[args]
	of *theirs
}

func (w *worker) Work(_ context.Context, j *river.Job[args]) error {
	return w.of.ran(j.Args, j.Attempt)
}

// NextRetry implements river.Worker.
func (w *worker) NextRetry(*river.Job[args]) time.Time { return time.Now() }

func newRiver(ctx context.Context, tb testing.TB, workers int) system {
	r := &theirs{base: &base{schema: newSchema()}}
	r.pool = newPool(ctx, tb, r.schema, &r.traced)
	_, err := r.pool.Exec(ctx, "CREATE SCHEMA "+r.schema)
	check(tb, err)
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Schema: r.schema, Logger: quiet()})
	check(tb, err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	check(tb, err)
	r.open(tb, map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}})
	return r
}

func (r *theirs) open(tb testing.TB, queues map[string]river.QueueConfig) {
	all := river.NewWorkers()
	river.AddWorker(all, &worker{of: r})
	config := &river.Config{
		Schema: r.schema, Workers: all, Logger: quiet(), Queues: queues,
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
	}
	if *keep > 0 {
		config.CompletedJobRetentionPeriod = *keep
	}
	var err error
	r.client, err = river.NewClient(riverpgxv5.New(r.pool), config)
	check(tb, err)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *theirs) put(ctx context.Context, n int, due time.Time) error {
	opts := &river.InsertOpts{ScheduledAt: due, MaxAttempts: 2}
	if n == 1 {
		_, err := r.client.Insert(ctx, r.argsNow(due), opts)
		return err
	}
	list := make([]river.InsertManyParams, n)
	for i := range list {
		list[i] = river.InsertManyParams{Args: r.argsNow(due), InsertOpts: opts}
	}
	_, err := r.client.InsertManyFast(ctx, list)
	return err
}

func (r *theirs) start(ctx context.Context) error { return r.client.Start(ctx) }

func (r *theirs) ended(ctx context.Context) (int, error) {
	return r.count(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'")
}

func (r *theirs) beside(ctx context.Context, tb testing.TB) system {
	other := &theirs{base: &base{schema: r.schema}}
	other.pool = newPool(ctx, tb, r.schema, &other.traced)
	other.open(tb, nil)
	return other
}

func (r *theirs) close(ctx context.Context) error { return r.client.Stop(ctx) }

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
