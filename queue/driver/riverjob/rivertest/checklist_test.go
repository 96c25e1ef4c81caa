package rivertest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// TestLine01 inserts by the statement of Python's client.
func TestLine01AnInsertOfPythonRunsWithoutANotificationAndAtOnceWithOne(t *testing.T) {
	w := newWorld(t)
	got := make(chan args, 1)
	kind := define(t, func(_ context.Context, a args) error {
		got <- a
		return nil
	})
	w.start()
	inSomeRound(t, 1200*time.Millisecond, func() (longest time.Duration) {
		for range 3 {
			begin := time.Now()
			id := w.insert(pythonJob{kind: kind, args: `{"n": 7, "text": "läuft"}`})
			assert.Equal(t, args{7, "läuft"}, <-got)
			longest = max(longest, time.Since(begin))
			w.await(id, "completed") // so that the worker, which is free then, has claimed again
		}
		return longest
	})
	inSomeRound(t, 50*time.Millisecond, func() time.Duration {
		w.insert(pythonJob{kind: kind})
		begin := time.Now()
		w.notify("default")
		<-got
		return time.Since(begin)
	})
}

// TestLine02 inserts by the statements of Python's and Ruby's clients, which differ in nothing but
// metadata, and by River's client for Go.
func TestLine02InsertManyAndInsertInATransactionRun(t *testing.T) {
	w := newWorld(t)
	ran := make(chan int, 10)
	kind := define(t, func(_ context.Context, a args) error {
		ran <- a.N
		return nil
	})
	w.start()

	// insert_many
	_, err := w.python.ExecContext(w.ctx, w.sql(`INSERT INTO {s}.river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags)
		SELECT unnest($1::jsonb[]), $2, 25, '{}', 1, 'default', now(), 'available', '{}'`), []string{`{"n": 1}`, `{"n": 2}`}, kind)
	require.NoError(t, err)
	assert.ElementsMatch(t, []int{1, 2}, []int{<-ran, <-ran})

	// insert_tx: only after the commit
	tx, err := w.python.BeginTx(w.ctx, nil)
	require.NoError(t, err)
	id, _ := w.insertIn(tx, pythonJob{kind: kind, args: `{"n": 3}`})
	w.insert(pythonJob{kind: kind, args: `{"n": 4}`})
	assert.Equal(t, 4, <-ran, "a job that is committed later")
	require.NoError(t, tx.Commit())
	assert.Equal(t, 3, <-ran)
	w.await(id, "completed")

	// Ruby's client leaves metadata out.
	_, err = w.python.ExecContext(w.ctx, w.sql(`INSERT INTO {s}.river_job (args, kind, max_attempts, priority, queue, scheduled_at, state, tags)
		VALUES ('{"n": 5}', $1, 25, 1, 'default', now(), 'available', '{}')`), kind)
	require.NoError(t, err)
	assert.Equal(t, 5, <-ran)
}

// TestLine03 inserts by the statements of Python's client 0.7.0, which has no unique_states.
func TestLine03InsertsOfPython070Run(t *testing.T) {
	w := newWorld(t)
	ran := make(chan int, 3)
	kind := define(t, func(_ context.Context, a args) error {
		ran <- a.N
		return nil
	})
	w.start()
	for _, rows := range []string{`('{"n": 1}', $1, 25, '{}', 1, 'default', now(), 'available', '{}')`, `('{"n": 1}', $1, 25, '{}', 1, 'default', now(), 'available', '{}'), ('{"n": 1}', $1, 25, '{}', 1, 'default', now(), 'available', '{}')`} {
		_, err := w.python.ExecContext(w.ctx, w.sql(`INSERT INTO {s}.river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags) VALUES `+rows), kind)
		require.NoError(t, err)
	}
	for range 3 {
		<-ran
	}
	w.awaitCount("default", "completed", 3)
}

func TestLine04JobsAreTakenByPriorityThenTimeThenIDAndNeverTooEarly(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var order []int
	kind := define(t, func(_ context.Context, a args) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, a.N)
		return nil
	})
	minute := func(n int) string { return fmt.Sprintf("now() - interval '%d minutes'", n) }
	for n, at := range []struct {
		priority int
		at       string
	}{{4, minute(9)}, {2, minute(1)}, {2, minute(2)}, {1, minute(1)}, {1, minute(1)}, {3, minute(5)}} {
		w.exec(fmt.Sprintf(`INSERT INTO {s}.river_job (args, kind, max_attempts, priority, scheduled_at) VALUES ($1, $2, 25, %d, date_trunc('day', now()) + (%s - now()))`, at.priority, at.at),
			fmt.Sprintf(`{"n": %d}`, n), kind)
	}
	early := w.insert(pythonJob{kind: kind, args: `{"n": 100}`})
	w.exec(`UPDATE {s}.river_job SET scheduled_at = now() + interval '5 seconds' WHERE id = $1`, early)
	w.start(func(s *settings) { s.NumWorkers = 1 })
	w.await(early, "completed")
	assert.Equal(t, []int{3, 4, 2, 1, 5, 0, 100}, order)
	r := w.row(early)
	assert.False(t, r.AttemptedAt.Before(r.ScheduledAt), "an available job started %s early", r.ScheduledAt.Sub(*r.AttemptedAt))
}

func TestLine05EightProcessesTakeEachOf10000RowsOnce(t *testing.T) {
	w := newWorld(t)
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	var ran sync.Map
	kind := define(t, func(_ context.Context, a args) error {
		if _, again := ran.LoadOrStore(a.N, true); again {
			t.Errorf("job %d ran twice", a.N)
		}
		return nil
	})
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT jsonb_build_object('n', n), $1, 25 FROM generate_series(1, $2) n`, kind, n)
	for range 8 {
		w.start(func(s *settings) { s.NumWorkers = 16 })
	}
	w.awaitCount("default", "completed", n)
	assert.Equal(t, n, ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE attempt = 1 AND cardinality(attempted_by) = 1`))
}

func TestLine06AfterSuccessTheRowIsCompleted(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	id := w.insert(pythonJob{kind: kind})
	w.start()
	r := w.await(id, "completed")
	assert.NotNil(t, r.FinalizedAt)
	assert.Equal(t, 1, r.Attempt)
	assert.Len(t, r.AttemptedBy, 1)
	assert.Nil(t, r.Errors)
	assert.False(t, r.FinalizedAt.Before(*r.AttemptedAt))
}

func TestLine07AfterAnErrorTheRowIsRetryable(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(context.Context, args) error { return errDisk })
	id := w.insert(pythonJob{kind: kind})
	w.exec(`UPDATE {s}.river_job SET errors = ARRAY['{"at": "2026-01-01T00:00:00.000000+00:00", "attempt": 1, "error": "x", "trace": ""}']::jsonb[], attempt = 1 WHERE id = $1`, id)
	first := w.insert(pythonJob{kind: kind})
	w.start()

	// The second error: 16 s.
	r := w.await(id, "retryable")
	// It counts from the end, which came between the start and the time when the row was read.
	assert.WithinRange(t, r.ScheduledAt, r.AttemptedAt.Add(14400*time.Millisecond), r.Now.Add(17600*time.Millisecond), "two errors")
	require.Len(t, r.Errors, 2)
	assert.Nil(t, r.FinalizedAt)
	assert.Equal(t, 2, r.Attempt)
	e := w.errorsOf(id)[1]
	assert.Equal(t, "disk full", *e.Error)
	assert.Equal(t, 2, *e.Attempt)
	assert.Empty(t, *e.Trace)

	// The first error: 1 s, which is soon, so that the row is available.
	w.eventually("the first attempt failed", func() bool { return len(w.row(first).Errors) > 0 })
	assert.Equal(t, 1, *w.errorsOf(first)[0].Attempt)
	w.await(first, "retryable") // after the second error
	assert.Equal(t, 2, w.row(first).Attempt)
}

func TestLine08AfterTheLastAttemptTheRowIsDiscarded(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(context.Context, args) error { return errDisk })
	id := w.insert(pythonJob{kind: kind, maxAttempts: 2})
	w.start()
	r := w.await(id, "discarded")
	assert.Equal(t, 2, r.Attempt)
	assert.Len(t, r.Errors, 2)
	assert.NotNil(t, r.FinalizedAt)
}

// TestLine09 checks what Python's client reads of an error: all four keys, and a time that
// datetime.fromisoformat of Python 3.8 reads, which takes six digits and an offset.
func TestLine09PythonReadsTheErrorsOfARow(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(context.Context, args) error { return errDisk })
	id := w.insert(pythonJob{kind: kind, maxAttempts: 1, unique: "x", states: "11111101"})
	w.start()
	w.await(id, "discarded")
	again, duplicate := w.insertIn(w.python, pythonJob{kind: kind, unique: "x", states: "11111101"})
	assert.True(t, duplicate)
	assert.Equal(t, id, again)
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`, *w.errorsOf(id)[0].At)
}

func TestLine10APanicGivesItsValueAndAStack(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(context.Context, args) error { panic("out of paper") })
	id := w.insert(pythonJob{kind: kind, maxAttempts: 1})
	w.start()
	w.await(id, "discarded")
	e := w.errorsOf(id)[0]
	assert.Contains(t, *e.Error, "out of paper")
	assert.Contains(t, *e.Trace, "goroutine")
}

func TestLine11ThreeSnoozesUseUpNoAttempt(t *testing.T) {
	w := newWorld(t)
	runs := 0
	kind := define(t, func(context.Context, args) error {
		runs++
		if runs <= 3 {
			return job.Snooze(10 * time.Millisecond)
		}
		return nil
	})
	id := w.insert(pythonJob{kind: kind})
	w.start()
	r := w.await(id, "completed")
	assert.Equal(t, 1, r.Attempt)
	assert.InDelta(t, 3, r.Metadata["snoozes"], 0)
	assert.Nil(t, r.Errors)
	assert.Len(t, r.AttemptedBy, 4)
}

// TestLine12 cancels by River's client, as River UI does.
func TestLine12CancelInRiverUIEndsWaitingAndRunningJobs(t *testing.T) {
	w := newWorld(t)
	started, canceled := make(chan bool, 10), make(chan time.Time, 10)
	wait := func(ctx context.Context) {
		started <- true
		<-ctx.Done()
		canceled <- time.Now()
	}
	returning := define(t, func(ctx context.Context, _ args) error {
		wait(ctx)
		return ctx.Err()
	})
	finishing := define(t, func(ctx context.Context, _ args) error {
		wait(ctx)
		return nil
	})
	failing := define(t, func(context.Context, args) error { return errDisk })
	c := w.client()
	cancel := func(id int64) {
		_, err := c.JobCancel(w.ctx, id)
		require.NoError(t, err)
	}
	w.start()

	waiting := w.insert(pythonJob{kind: returning, scheduledAt: time.Now().Add(time.Hour)})
	cancel(waiting)
	assert.Equal(t, "cancelled", w.row(waiting).State)

	inSomeRound(t, 100*time.Millisecond, func() time.Duration {
		id := w.insert(pythonJob{kind: returning})
		<-started
		begin := time.Now()
		cancel(id)
		took := (<-canceled).Sub(begin)
		r := w.await(id, "cancelled")
		assert.NotNil(t, r.FinalizedAt)
		assert.Equal(t, "JobCancelError: job cancelled remotely", *w.errorsOf(id)[0].Error)
		return took
	})

	id := w.insert(pythonJob{kind: finishing})
	<-started
	cancel(id)
	w.await(id, "completed")

	// A job that was asked to end, and fails with attempts left, is not retried within 5 s.
	id = w.insert(pythonJob{kind: failing, scheduledAt: time.Now().Add(time.Hour)})
	w.exec(`CREATE FUNCTION {s}.mark() RETURNS trigger AS $$ BEGIN
		NEW.metadata = NEW.metadata || '{"cancel_attempted_at": "2026-01-01T00:00:00Z"}'; RETURN NEW; END $$ LANGUAGE plpgsql`)
	w.exec(`CREATE TRIGGER mark BEFORE UPDATE ON {s}.river_job FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION {s}.mark()`)
	w.exec(`UPDATE {s}.river_job SET scheduled_at = now() WHERE id = $1`, id)
	w.await(id, "cancelled")
}

func TestLine13RetryInRiverUIRunsADiscardedJobAgain(t *testing.T) {
	w := newWorld(t)
	fail := true
	kind := define(t, func(context.Context, args) error {
		if fail {
			fail = false
			return errDisk
		}
		return nil
	})
	id := w.insert(pythonJob{kind: kind, maxAttempts: 1})
	w.start()
	w.await(id, "discarded")
	_, err := w.client().JobRetry(w.ctx, id)
	require.NoError(t, err)
	r := w.await(id, "completed")
	assert.Equal(t, 2, r.MaxAttempts)
	assert.Equal(t, 2, r.Attempt)
	assert.Len(t, r.Errors, 1)

	// A job that was cancelled in an earlier life is not cancelled in the next.
	other := w.insert(pythonJob{kind: kind, scheduledAt: time.Now().Add(time.Hour)})
	_, err = w.client().JobCancel(w.ctx, other)
	require.NoError(t, err)
	_, err = w.client().JobRetry(w.ctx, other)
	require.NoError(t, err)
	w.await(other, "completed")
}

func TestLine14PauseInRiverUIStopsTakingJobs(t *testing.T) {
	w := newWorld(t)
	ran := make(chan int, 10)
	kind := define(t, func(_ context.Context, a args) error {
		ran <- a.N
		return nil
	})
	w.start()
	c := w.client()
	listed, err := c.QueueGet(w.ctx, "default")
	require.NoError(t, err, "a queue that is worked is listed")
	assert.Nil(t, listed.PausedAt)

	require.NoError(t, c.QueuePause(w.ctx, "default", nil))
	w.insert(pythonJob{kind: kind, args: `{"n": 1}`})
	// Each claim reads the pause, so no time has to pass. A resume is heard of at once.
	d, err := riverjob.Open(w.ctx, riverjob.Options{Pool: w.pool, Schema: w.schema, Queues: []string{"default"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close(w.ctx)) }()
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "x", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute})
	require.NoError(t, err)
	assert.Empty(t, claimed.Records)
	control, err := d.Control(w.ctx, "default", driver.ControlChange{})
	require.NoError(t, err)
	assert.True(t, control.Paused)
	inSomeRound(t, 100*time.Millisecond, func() time.Duration {
		begin := time.Now()
		require.NoError(t, c.QueueResume(w.ctx, "default", nil))
		<-ran
		took := time.Since(begin)
		require.NoError(t, c.QueuePause(w.ctx, "default", nil))
		w.insert(pythonJob{kind: kind})
		return took
	})

	// Without a notification.
	w.exec(`UPDATE {s}.river_queue SET paused_at = NULL`)
	<-ran
}

func TestLine14RiverUICountsTheJobsThatRunAndWait(t *testing.T) {
	const workers, waiting = 2, 5
	w := newWorld(t)
	begun, release := make(chan struct{}, workers+waiting), make(chan struct{})
	kind := define(t, func(context.Context, args) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	for range workers + waiting {
		w.insert(pythonJob{kind: kind})
	}
	w.start(func(s *settings) { s.NumWorkers = workers })
	for range workers {
		<-begun
	}
	c := w.client()
	running := river.NewJobListParams().Queues("default").States("running")
	available := river.NewJobListParams().Queues("default").States("available")
	// What a process has claimed ahead is handed back within 50 ms.
	assert.Eventually(t, func() bool {
		run, err := c.JobList(w.ctx, running)
		require.NoError(t, err)
		wait, err := c.JobList(w.ctx, available)
		require.NoError(t, err)
		return len(run.Jobs) == workers && len(wait.Jobs) == waiting
	}, 10*time.Second, time.Millisecond)
	close(release)
}

// TestLine15 checks the keys of the metadata that River UI shows.
func TestLine15LogAndOutputAreVisibleInRiverUI(t *testing.T) {
	w := newWorld(t)
	kind := fmt.Sprintf("kind_%d", lastKind.Add(1))
	definition := job.DefineResult(kind, 1, func(ctx context.Context, a args) (map[string]int, error) {
		job.Log(ctx, "counted %d", a.N)
		return map[string]int{"pages": a.N}, nil
	})
	require.NoError(t, definition.Err())
	id := w.insert(pythonJob{kind: kind, args: `{"n": 12}`})
	q := w.start()
	r := w.await(id, "completed")
	assert.Equal(t, map[string]any{"pages": 12.0}, r.Metadata["output"])
	logs := r.Metadata["river:log"].([]any)
	require.Len(t, logs, 1)
	assert.InDelta(t, 1, logs[0].(map[string]any)["attempt"], 0)
	assert.Contains(t, logs[0].(map[string]any)["log"], "counted 12")

	j, err := w.client().JobGet(w.ctx, id)
	require.NoError(t, err)
	assert.JSONEq(t, `{"pages": 12}`, string(j.Output()))
	stored, ok := q.Get(w.ctx, fmt.Sprint(id))
	require.True(t, ok)
	result, err := definition.ResultOf(stored)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"pages": 12}, result)
}

func TestLine16ASecondUniqueInsertReturnsTheFirstRowInEveryCountedState(t *testing.T) {
	w := newWorld(t)
	for _, state := range []string{"available", "scheduled", "running", "retryable", "pending", "completed"} {
		first := w.insert(pythonJob{kind: "of_another", unique: state, scheduledAt: time.Now().Add(time.Hour)})
		w.exec(`UPDATE {s}.river_job SET state = $2::text::{s}.river_job_state, finalized_at = CASE WHEN $2 = 'completed' THEN now() END WHERE id = $1`, first, state)
		again, duplicate := w.insertIn(w.python, pythonJob{kind: "of_another", unique: state})
		assert.Equal(t, first, again, state)
		assert.True(t, duplicate, state)
	}
	// By our own runs: running, completed, and discarded.
	release := make(chan error)
	kind := define(t, func(context.Context, args) error { return <-release })
	w.start()
	first := w.insert(pythonJob{kind: kind, unique: "ours", maxAttempts: 1})
	w.await(first, "running")
	again, duplicate := w.insertIn(w.python, pythonJob{kind: kind, unique: "ours"})
	assert.True(t, duplicate)
	assert.Equal(t, first, again)
	release <- errDisk
	w.await(first, "discarded")
	next, duplicate := w.insertIn(w.python, pythonJob{kind: kind, unique: "ours"})
	assert.False(t, duplicate)
	assert.NotEqual(t, first, next)
	release <- nil
	w.await(next, "completed")
	_, duplicate = w.insertIn(w.python, pythonJob{kind: kind, unique: "ours"})
	assert.True(t, duplicate)
}

// TestLine17 checks the fixture, which makes keys as Python's client does; riverjob itself takes keys
// as they are.
func TestLine17TheVectorsOfUniqueKeys(t *testing.T) {
	for text, key := range map[string]string{
		`&kind=sort&args={"strings":["whale","tiger"]}&state=available,completed,pending,running,retryable,scheduled`: "3fbdf953b01b1b63d25576ed298cf0b69c5c54e54947fab29f1f08a7672f2de3",
		`&kind=sort&queue=default&state=available,completed,pending,running,retryable,scheduled`:                      "3197382e2955f4e4884a65c0b331b08256e89e592e56276b2f974b1167904586",
		`&kind=sort&period=2024-06-01T12:00:00Z&state=available,completed,pending,running,retryable,scheduled`:        "2a60dfffe9612a614128632d0eeccc1bfa641cd66f81e265fb25713a52d42c3b",
		`&kind=sort&queue=default`: "99fdaffdd11e90ef4d794b92802a20f4d0c4c7a4002c1a859617734eb372e47c",
	} {
		sum := sha256.Sum256([]byte(text))
		assert.Equal(t, key, hex.EncodeToString(sum[:]))
	}
	// River's client for Go writes the same key and states as the last vector.
	w := newWorld(t)
	inserted, err := w.client().Insert(w.ctx, sortArgs{}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByQueue: true}})
	require.NoError(t, err)
	assert.Equal(t, "99fdaffdd11e90ef4d794b92802a20f4d0c4c7a4002c1a859617734eb372e47c", hex.EncodeToString(inserted.Job.UniqueKey))
	assert.Equal(t, defaultStates, ask[string](w, `SELECT unique_states::text FROM {s}.river_job`))
}

type sortArgs struct{}

// Kind implements river.JobArgs.
func (sortArgs) Kind() string { return "sort" }

// retryableFree are the default states but retryable.
const retryableFree = "11010101"

func TestLine18ADueJobWhoseKeyIsTakenIsDiscarded(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	retryable := func(key string) int64 {
		id := w.insert(pythonJob{kind: kind, unique: key, states: retryableFree, scheduledAt: time.Now().Add(time.Hour)})
		w.exec(`UPDATE {s}.river_job SET state = 'retryable', attempt = 1 WHERE id = $1`, id)
		return id
	}
	first := retryable("x")
	w.exec(`INSERT INTO {s}.river_queue (name, updated_at, paused_at) VALUES ('default', now(), now())`)
	other := w.insert(pythonJob{kind: kind, unique: "x", states: retryableFree})
	two, three := retryable("y"), retryable("y") // of two due jobs, the first wins
	alone := retryable("z")
	w.exec(`UPDATE {s}.river_job SET scheduled_at = now() - interval '1 second' WHERE state = 'retryable'`)
	w.start()
	for _, id := range []int64{first, three} {
		r := w.await(id, "discarded")
		assert.Equal(t, "scheduler_discarded", r.Metadata["unique_key_conflict"])
		assert.NotNil(t, r.FinalizedAt)
	}
	for _, id := range []int64{two, alone} {
		w.await(id, "available")
	}
	require.NoError(t, w.client().QueueResume(w.ctx, "default", nil))
	for _, id := range []int64{other, two, alone} {
		w.await(id, "completed")
	}
}

func TestLine19NoOutcomeIsLostToAUniqueViolation(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(_ context.Context, a args) error {
		if a.N == 0 {
			return errDisk
		}
		return nil
	})
	// An older job lies there that was discarded, and that state counts.
	const discardedCounts = "11111101"
	older := w.insert(pythonJob{kind: "of_another", unique: "x", states: discardedCounts, scheduledAt: time.Now().Add(time.Hour)})
	w.exec(`UPDATE {s}.river_job SET state = 'discarded', finalized_at = now() WHERE id = $1`, older)
	sum := sha256.Sum256([]byte("x"))
	// Its key counts in no state but discarded, so that it could be inserted.
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, unique_key, unique_states) VALUES ('{"n": 0}', $1, 1, $2, B'00001000')`, kind, sum[:])
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT '{"n": 1}', $1, 1 FROM generate_series(1, 20)`, kind)
	w.start()
	w.awaitCount("default", "completed", 20)
	w.awaitCount("default", "discarded", 2)
	id := ask[int64](w, `SELECT max(id) FROM {s}.river_job WHERE state = 'discarded'`)
	assert.Nil(t, w.row(id).UniqueKey)
	assert.Equal(t, "disk full", *w.errorsOf(id)[0].Error)
}

func TestLine20AWorkerThatLostItsRowChangesNothing(t *testing.T) {
	w := newWorld(t)
	release, started := make(chan error), make(chan bool, 10)
	kind := define(t, func(context.Context, args) error {
		started <- true
		return <-release
	})
	id := w.insert(pythonJob{kind: kind})
	q := w.start()
	events, unsubscribe, err := amboy.Subscribe(q, 100)
	require.NoError(t, err)
	defer unsubscribe()
	<-started
	// Rescued, and taken by another worker.
	w.exec(`UPDATE {s}.river_job SET attempt = 2, attempted_by = attempted_by || 'another'::text WHERE id = $1`, id)
	before := w.row(id)
	release <- nil
	other := w.insert(pythonJob{kind: kind})
	<-started
	release <- nil
	w.await(other, "completed")
	after := w.row(id)
	after.Now = before.Now
	assert.Equal(t, before, after)
	for len(events) > 0 {
		e := <-events
		assert.False(t, e.Kind.IsEnd() && e.JobID == fmt.Sprint(id), "an end of a job that was lost: %v", e)
	}
}

func TestLine21RiverWorksAnotherQueueOfTheSameDatabase(t *testing.T) {
	w := newWorld(t)
	n := 10_000
	if testing.Short() {
		n = 500
	}
	release := make(chan bool)
	long := define(t, func(ctx context.Context, _ args) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	kind := define(t, nothing)
	id := w.insert(pythonJob{kind: long})
	w.start(func(s *settings) { s.LockTimeout, s.NumWorkers = 8*time.Second, 20 })
	w.await(id, "running")
	begun := w.row(id).AttemptedAt

	// River's rescuer considers this job stuck, because no process renews it; it would treat the long one alike.
	stuck := ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, queue, state, attempt, attempted_at)
		VALUES ('{}', 'of_nobody', 25, 'other', 'running', 1, now()) RETURNING id`)
	const rescueAfter = 7 * time.Second // The lease is renewed every two seconds, if this process is not held up.
	w.eventually("the job has run for longer than RescueStuckJobsAfter", func() bool {
		r := w.row(id)
		return r.Now.Sub(*begun) > rescueAfter+time.Second
	})
	c := w.startRiver(func(config *river.Config) { config.RescueStuckJobsAfter, config.JobTimeout = rescueAfter, rescueAfter })
	w.await(stuck, "discarded")
	assert.Equal(t, "running", w.row(id).State)

	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT jsonb_build_object('n', n), $1, 25 FROM generate_series(1, $2) n`, kind, n)
	many := make([]river.InsertManyParams, n)
	for i := range many {
		many[i] = river.InsertManyParams{Args: riverArgs{i}, InsertOpts: &river.InsertOpts{Queue: "river"}}
	}
	_, err := c.InsertMany(w.ctx, many)
	require.NoError(t, err)
	w.awaitCount("default", "completed", n)
	w.awaitCount("river", "completed", n)
	close(release)
	r := w.await(id, "completed")
	assert.Equal(t, 1, r.Attempt)
	assert.WithinDuration(t, *begun, *r.AttemptedAt, rescueAfter/2, "the end restores the start of the run")
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE kind <> 'of_nobody' AND (attempt <> 1 OR state <> 'completed' OR errors IS NOT NULL)`))
}

func TestLine22WithoutRiverTheMaintenanceIsOurs(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	scheduled := w.insert(pythonJob{kind: kind, scheduledAt: time.Now().Add(time.Second)})
	ended := func(state, ago string) int64 {
		return ask[int64](w, fmt.Sprintf(`INSERT INTO {s}.river_job (args, kind, max_attempts, state, finalized_at)
			VALUES ('{}', 'x', 25, '%s', now() - interval '%s') RETURNING id`, state, ago))
	}
	old := []int64{ended("completed", "25 hours"), ended("cancelled", "25 hours"), ended("discarded", "8 days")}
	young := []int64{ended("completed", "23 hours"), ended("cancelled", "23 hours"), ended("discarded", "6 days")}
	// The process that claimed it was killed, and its lease has run out.
	killed := ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, state, attempt, attempted_at, attempted_by)
		VALUES ('{}', $1, 25, 'running', 1, now() - interval '2 minutes', ARRAY['driver.host.1.1#1/1m0s']) RETURNING id`, kind)
	rivers := ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, state, attempt, attempted_at, attempted_by)
		VALUES ('{}', $1, 25, 'running', 1, now() - interval '59 minutes', ARRAY['host_2026_01_01T00_00_00_000000']) RETURNING id`, kind)
	w.start(func(s *settings) { s.LockTimeout = 2 * time.Second })
	w.await(scheduled, "completed")
	r := w.await(killed, "completed")
	assert.Equal(t, 2, r.Attempt)
	assert.Equal(t, "Stuck job rescued by JobRescuer", *w.errorsOf(killed)[0].Error)
	assert.InDelta(t, 1, r.Metadata["river:rescue_count"], 0)
	w.eventually("old jobs are removed", func() bool {
		return ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE id = ANY($1)`, old) == 0
	})
	assert.Equal(t, 3, ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE id = ANY($1)`, young))
	assert.Equal(t, "running", w.row(rivers).State, "a job of River's own process is left for an hour")
}

func TestLine23RiversCleanerRemovesOurEndedRows(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	id := w.insert(pythonJob{kind: kind})
	w.start(func(s *settings) { s.KeepCompleted = riverjob.KeepForever })
	w.await(id, "completed")
	w.startRiver(func(c *river.Config) { c.CompletedJobRetentionPeriod = time.Millisecond })
	w.eventually("the row is removed", func() bool {
		return ask[int](w, `SELECT count(*) FROM {s}.river_job`) == 0
	})
}

func TestLine24AnUnknownKindKeepsItsAttemptsAndIsReported(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	unknown := w.insert(pythonJob{kind: "nobody_knows", args: `{"deep": {"n": 1.50}, "list": [1, null]}`})
	known := w.insert(pythonJob{kind: kind})
	q := w.start()
	w.await(known, "completed")
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	w.eventually("the unknown kind is reported", func() bool {
		queues, failure := inspector.Queues(w.ctx)
		require.NoError(t, failure)
		return len(queues) == 1 && len(queues[0].Unknown) == 1 && queues[0].Unknown[0].Type == "nobody_knows"
	})
	r := w.await(unknown, "available")
	assert.Zero(t, r.Attempt)
	assert.Nil(t, r.Errors)
	seen, err := inspector.Job(w.ctx, "default", fmt.Sprint(unknown))
	require.NoError(t, err)
	assert.JSONEq(t, `{"deep": {"n": 1.50}, "list": [1, null]}`, string(seen.Args))
}

func TestLine25UnknownMetadataSurvivesAllAttempts(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		j, _ := job.FromContext(ctx)
		j.(amboy.MetadataJob).SetMetadata("mine", fmt.Sprint("attempt ", job.AttemptFrom(ctx)))
		if job.AttemptFrom(ctx) == 0 {
			w.exec(`UPDATE {s}.river_job SET metadata = metadata || '{"theirs": 2}' WHERE id = $1`, j.ID())
			return errDisk
		}
		return nil
	})
	id := w.insert(pythonJob{kind: kind})
	w.exec(`UPDATE {s}.river_job SET metadata = '{"deep": {"a": [1, 2.50, null]}, "text": "3", "number": 3, "null": null, "theirs": 1, "river:resumable_step": "x"}' WHERE id = $1`, id)
	w.start()
	r := w.await(id, "completed")
	assert.Equal(t, map[string]any{
		"deep": map[string]any{"a": []any{1.0, 2.5, nil}}, "text": "3", "number": 3.0, "null": nil, "theirs": 2.0,
		"river:resumable_step": "x", "mine": "attempt 1",
	}, r.Metadata)
}

func TestLine26All22FieldsAreInOurModel(t *testing.T) {
	w := newWorld(t)
	d, err := riverjob.Open(w.ctx, riverjob.Options{Pool: w.pool, Schema: w.schema, Queues: []string{"mail"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close(w.ctx)) }()
	inspector, err := management.NewStoreInspector(d)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("x"))
	full := ask[int64](w, `INSERT INTO {s}.river_job (args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind, max_attempts, metadata,
			priority, queue, scheduled_at, state, tags, unique_key, unique_states)
		VALUES ('{"to": "a@b"}', 2, '2026-01-01T00:00:02Z', ARRAY['one', 'two'], '2026-01-01T00:00:00Z',
			ARRAY['{"at": "2026-01-01T00:00:01.000000+00:00", "attempt": 1, "error": "no route", "trace": "stack"}', '{"at": "2026-01-01T00:00:02Z", "attempt": 2, "error": "refused", "trace": ""}']::jsonb[],
			'2026-01-01T00:00:03Z', 'send', 2, '{"a": "b"}', 3, 'mail', '2026-01-01T00:00:01.5Z', 'discarded', ARRAY['red', 'blue'], $1, B'11110101') RETURNING id`, sum[:])
	at := func(text string) time.Time {
		parsed, failure := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, failure)
		return parsed
	}
	j, err := inspector.Job(w.ctx, "mail", fmt.Sprint(full))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(full), j.ID)
	assert.JSONEq(t, `{"to": "a@b"}`, string(j.Args))
	assert.Equal(t, 1, j.Attempt, "counted from 0")
	assert.Equal(t, at("2026-01-01T00:00:02Z"), j.Started)
	assert.Equal(t, []string{"one", "two"}, j.AttemptedBy)
	assert.Equal(t, at("2026-01-01T00:00:00Z"), j.Created)
	assert.Equal(t, []amboy.AttemptError{
		{Attempt: 0, At: at("2026-01-01T00:00:01Z"), Error: "no route", Stack: "stack"},
		{Attempt: 1, At: at("2026-01-01T00:00:02Z"), Error: "refused"},
	}, j.Errors)
	assert.Equal(t, at("2026-01-01T00:00:03Z"), j.Ended)
	assert.Equal(t, "send", j.Type)
	assert.Equal(t, 2, j.MaxAttempts)
	assert.Equal(t, map[string]string{"a": "b"}, j.Metadata)
	assert.Equal(t, -3, j.Priority)
	assert.Equal(t, "mail", j.Queue)
	assert.Equal(t, at("2026-01-01T00:00:01.5Z"), j.Due)
	assert.Equal(t, amboy.StateFailed, j.State)
	assert.Equal(t, []string{"red", "blue"}, j.Tags)
	assert.Equal(t, hex.EncodeToString(sum[:]), j.UniqueKey)
	assert.Equal(t, []amboy.JobState{
		amboy.StateScheduled, amboy.StatePending, amboy.StateParked, amboy.StateRunning, amboy.StateRetrying, amboy.StateSucceeded,
	}, j.UniqueStates)

	// A row in which everything that may be null is null.
	bare := ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, queue) VALUES ('null', 'send', 25, 'mail') RETURNING id`)
	j, err = inspector.Job(w.ctx, "mail", fmt.Sprint(bare))
	require.NoError(t, err)
	assert.Equal(t, "null", string(j.Args))
	assert.Empty(t, j.AttemptedBy)
	assert.Empty(t, j.Errors)
	assert.Zero(t, j.Started)
	assert.Zero(t, j.Ended)
	assert.Empty(t, j.UniqueKey)
	assert.Empty(t, j.UniqueStates)

	// And back: a round of actions of ours leaves the rest of the rows as it was.
	before := ask[string](w, `SELECT jsonb_agg(to_jsonb(j) - 'priority' ORDER BY id)::text FROM {s}.river_job j`)
	acted, err := d.Act(w.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Prioritize, Priority: -2}, Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 1, acted.Done, "an ended job has no priority any more")
	assert.JSONEq(t, before, ask[string](w, `SELECT jsonb_agg(to_jsonb(j) - 'priority' ORDER BY id)::text FROM {s}.river_job j`))
	for _, action := range []driver.ActionKind{driver.Park, driver.Unpark} {
		_, err = d.Act(w.ctx, driver.ActRequest{Action: driver.Action{Kind: action}, Limit: 10})
		require.NoError(t, err)
	}
	assert.JSONEq(t, before, ask[string](w, `SELECT jsonb_agg(to_jsonb(j) - 'priority' ORDER BY id)::text FROM {s}.river_job j`))
}

// TestLine27: all tests here use a schema other than public.
func TestLine27AnOlderSchemaIsRefused(t *testing.T) {
	w := emptyWorld(t)
	open := func() error {
		d, err := riverjob.Open(w.ctx, riverjob.Options{Pool: w.pool, Schema: w.schema, Queues: []string{"default"}})
		if err == nil {
			require.NoError(t, d.Close(w.ctx))
		}
		return err
	}
	err := open()
	require.ErrorContains(t, err, "run River's migrations")
	require.ErrorContains(t, err, w.schema)
	w.migrate(&rivermigrate.MigrateOpts{TargetVersion: 5})
	err = open()
	require.ErrorContains(t, err, "older than schema version 6")
	require.ErrorContains(t, err, "run River's migrations")
	w.migrate(&rivermigrate.MigrateOpts{TargetVersion: 6})
	require.NoError(t, open())
}

func TestLine28RiversMigrationsRunWhileOursIsConnected(t *testing.T) {
	w := emptyWorld(t)
	w.migrate(&rivermigrate.MigrateOpts{TargetVersion: 6})
	kind := define(t, nothing)
	w.start()
	w.await(w.insert(pythonJob{kind: kind}), "completed")
	w.migrate(nil)
	w.await(w.insert(pythonJob{kind: kind}), "completed")
}
