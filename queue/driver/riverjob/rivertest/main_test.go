package rivertest_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

// patience bounds what a test waits for, on a busy machine.
const patience = 2 * time.Minute

// world is a schema with River's tables.
type world struct {
	t      *testing.T
	ctx    context.Context
	pool   *pgxpool.Pool
	schema string
	// python is the connection of a client in another language.
	python *sql.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.migrate(nil)
	return w
}

// emptyWorld has a schema without tables.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, pool: pgtest.Pool(t), schema: pgtest.Schema(t)}
	w.exec(`CREATE SCHEMA {s}`)
	w.python = stdlib.OpenDBFromPool(w.pool)
	t.Cleanup(func() { require.NoError(t, w.python.Close()) })
	return w
}

func (w *world) migrate(opts *rivermigrate.MigrateOpts) {
	w.t.Helper()
	migrator, err := rivermigrate.New(riverpgxv5.New(w.pool), &rivermigrate.Config{Schema: w.schema})
	require.NoError(w.t, err)
	_, err = migrator.Migrate(w.ctx, rivermigrate.DirectionUp, opts)
	require.NoError(w.t, err)
}

func (w *world) sql(text string) string {
	return strings.ReplaceAll(text, "{s}", pgx.Identifier{w.schema}.Sanitize())
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.ctx, w.sql(text), args...)
	require.NoError(w.t, err)
}

// ask returns one value that a statement selects.
func ask[T any](w *world, text string, args ...any) T {
	w.t.Helper()
	var value T
	require.NoError(w.t, w.pool.QueryRow(w.ctx, w.sql(text), args...).Scan(&value))
	return value
}

// pythonJob is what Python's client inserts. The zero value of a field is the client's default.
type pythonJob struct {
	args, kind, queue, tags string
	maxAttempts, priority   int
	scheduledAt             time.Time
	unique                  string // the text of the unique key
	states                  string // the bits of unique_states; the default is 11110101
}

// defaultStates are the states in which a unique key counts by default.
const defaultStates = "11110101"

// The statement of Python's client at its last commit. See section 4 of the notes.
const pythonInsert = `INSERT INTO {s}.river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key, unique_states)
	SELECT $1::jsonb, $2, $3, '{}', $4, $5, $6, $7::text::{s}.river_job_state, string_to_array($8, ','), $9, $10::text::bit(8)
	ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND {s}.river_job_state_in_bitmask(unique_states, state)
	DO UPDATE SET kind = EXCLUDED.kind RETURNING id, (xmax <> 0) AS unique_skipped_as_duplicated`

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// insertIn inserts as Python's client does, and reports whether the job was a duplicate.
func (w *world) insertIn(on querier, j pythonJob) (id int64, duplicate bool) {
	w.t.Helper()
	state := "available"
	if j.scheduledAt.IsZero() {
		j.scheduledAt = time.Now()
	} else {
		state = "scheduled"
	}
	var key []byte
	var states *string
	if j.unique != "" {
		sum := sha256.Sum256([]byte(j.unique))
		key, states = sum[:], &j.states
		if j.states == "" {
			*states = defaultStates
		}
	}
	or(&j.args, "{}")
	or(&j.queue, "default")
	or(&j.maxAttempts, 25)
	or(&j.priority, 1)
	err := on.QueryRowContext(w.ctx, w.sql(pythonInsert), j.args, j.kind, j.maxAttempts, j.priority, j.queue, j.scheduledAt.UTC(), state, j.tags, key, states).
		Scan(&id, &duplicate)
	require.NoError(w.t, err)
	return id, duplicate
}

func or[T comparable](value *T, byDefault T) {
	var none T
	if *value == none {
		*value = byDefault
	}
}

func (w *world) insert(j pythonJob) int64 {
	w.t.Helper()
	id, _ := w.insertIn(w.python, j)
	return id
}

// notify sends the notification that River sends for an inserted job.
func (w *world) notify(name string) {
	w.t.Helper()
	w.exec("SELECT pg_notify($1, $2)", w.schema+".river_insert", fmt.Sprintf(`{"queue":%q}`, name))
}

// row is a row as the tests see it.
type row struct {
	State                    string
	Attempt, MaxAttempts     int
	AttemptedAt, FinalizedAt *time.Time
	ScheduledAt              time.Time
	AttemptedBy              []string
	Errors                   []string
	Metadata                 map[string]any
	UniqueKey                []byte
	Now                      time.Time
}

func (w *world) row(id int64) (r row) {
	w.t.Helper()
	var metadata string
	err := w.pool.QueryRow(w.ctx, w.sql(`SELECT state::text, attempt, max_attempts, attempted_at, finalized_at, scheduled_at, attempted_by, errors::text[], metadata::text, unique_key, clock_timestamp()
		FROM {s}.river_job WHERE id = $1`), id).
		Scan(&r.State, &r.Attempt, &r.MaxAttempts, &r.AttemptedAt, &r.FinalizedAt, &r.ScheduledAt, &r.AttemptedBy, &r.Errors, &metadata, &r.UniqueKey, &r.Now)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal([]byte(metadata), &r.Metadata))
	return r
}

// jobError is an element of errors, with the keys that Python's client requires.
type jobError struct {
	At      *string `json:"at"`
	Attempt *int    `json:"attempt"`
	Error   *string `json:"error"`
	Trace   *string `json:"trace"`
}

func (w *world) errorsOf(id int64) []jobError {
	w.t.Helper()
	var all []jobError
	for _, text := range w.row(id).Errors {
		var e jobError
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		require.NoError(w.t, decoder.Decode(&e))
		require.NotNil(w.t, e.At)
		require.NotNil(w.t, e.Attempt)
		require.NotNil(w.t, e.Error)
		require.NotNil(w.t, e.Trace)
		all = append(all, e)
	}
	return all
}

// eventually asks the server until a condition holds. Rows are the interface between the two systems,
// and no event announces all of their changes.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline.C:
			rows := ask[string](w, `SELECT coalesce(jsonb_agg(to_jsonb(j))::text, '') FROM (SELECT * FROM {s}.river_job ORDER BY id DESC LIMIT 5) j`)
			w.t.Fatalf("waited too long until %s; the last rows are %s", what, rows)
		}
	}
}

// await waits until a job has a state.
func (w *world) await(id int64, state string) row {
	w.t.Helper()
	var r row
	w.eventually(fmt.Sprintf("job %d is %s", id, state), func() bool {
		r = w.row(id)
		return r.State == state
	})
	return r
}

// awaitCount waits until so many jobs of a queue have a state.
func (w *world) awaitCount(name, state string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d jobs of queue %s are %s", n, name, state), func() bool {
		return ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE queue = $1 AND state = $2::text::{s}.river_job_state`, name, state) == n
	})
}

// settings are how a queue of ours is made.
type settings struct {
	queue.DriverQueueOptions
	riverjob.Options
}

// start starts a queue of ours.
func (w *world) start(change ...func(*settings)) amboy.RetryableQueue {
	w.t.Helper()
	s := settings{
		DriverQueueOptions: queue.DriverQueueOptions{Name: "default", NumWorkers: 4, LockTimeout: time.Minute},
		Options:            riverjob.Options{Pool: w.pool, Schema: w.schema, Queues: []string{"default"}},
	}
	for _, c := range change {
		c(&s)
	}
	d, err := riverjob.Open(w.ctx, s.Options)
	require.NoError(w.t, err)
	s.Driver, s.CloseDriver = d, true
	q, err := queue.NewDriverQueue(s.DriverQueueOptions)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { q.Close(context.WithoutCancel(w.ctx)) })
	require.NoError(w.t, q.Start(w.ctx))
	return q
}

// client returns a client of River, which inserts, and does what River UI does.
func (w *world) client() *river.Client[pgx.Tx] {
	w.t.Helper()
	c, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Schema: w.schema})
	require.NoError(w.t, err)
	return c
}

// startRiver starts a process of River that works queue "river".
func (w *world) startRiver(change ...func(*river.Config)) *river.Client[pgx.Tx] {
	w.t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{})
	config := &river.Config{
		Schema: w.schema, Workers: workers, Queues: map[string]river.QueueConfig{"river": {MaxWorkers: 10}},
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
	}
	for _, c := range change {
		c(config)
	}
	c, err := river.NewClient(riverpgxv5.New(w.pool), config)
	require.NoError(w.t, err)
	require.NoError(w.t, c.Start(context.WithoutCancel(w.ctx)))
	w.t.Cleanup(func() { require.NoError(w.t, c.StopAndCancel(context.WithoutCancel(w.ctx))) })
	return c
}

type riverArgs struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "rivers_own" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

func (*riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

// args are the arguments of the jobs of the tests.
type args struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

var lastKind atomic.Int64

// define registers a kind of jobs that only this test has.
func define(t *testing.T, run func(context.Context, args) error, defaults ...job.Defaults[args]) string {
	t.Helper()
	kind := fmt.Sprintf("kind_%d", lastKind.Add(1))
	require.NoError(t, job.Define(kind, 3, run, defaults...).Err())
	return kind
}

func nothing(context.Context, args) error { return nil }

var errDisk = errors.New("disk full")

// inSomeRound repeats a measurement until it is within a bound, because the machine may be busy.
func inSomeRound(t *testing.T, bound time.Duration, measure func() time.Duration) {
	t.Helper()
	const rounds = 8
	var took time.Duration
	for range rounds {
		if took = measure(); took <= bound {
			t.Logf("%s (bound %s)", took, bound)
			return
		}
	}
	t.Errorf("took %s in the last of %d rounds (bound %s)", took, rounds, bound)
}

// claimOne claims one job, if one is ready.
func claimOne(ctx context.Context, t *testing.T, d *riverjob.Driver) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	return claimed.Records
}
