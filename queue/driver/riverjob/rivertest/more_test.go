package rivertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/riverjob"
	"github.com/mongodb/amboy/retry"
)

func (w *world) open(change ...func(*riverjob.Options)) *riverjob.Driver {
	w.t.Helper()
	opts := riverjob.Options{Pool: w.pool, Schema: w.schema, Queues: []string{"default"}}
	for _, c := range change {
		c(&opts)
	}
	d, err := riverjob.Open(w.ctx, opts)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, d.Close(context.WithoutCancel(w.ctx))) })
	return d
}

func TestArgumentsThatDoNotFitParkTheJobOnce(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	id := w.insert(pythonJob{kind: kind, args: `{"n": "seven"}`})
	w.start()
	r := w.await(id, "pending")
	assert.Zero(t, r.Attempt)
	assert.Nil(t, r.Errors)
	assert.Contains(t, r.Metadata["amboy:parked"], "args")
	assert.Len(t, r.AttemptedBy, 1)

	// Once its arguments are mended, an operator releases it.
	w.exec(`UPDATE {s}.river_job SET args = '{"n": 7}' WHERE id = $1`, id)
	inspector, err := management.NewStoreInspector(w.open())
	require.NoError(t, err)
	acted, err := inspector.ActOn(w.ctx, "default", fmt.Sprint(id), management.Action{Kind: management.Release})
	require.NoError(t, err)
	assert.Equal(t, 1, acted.Done)
	r = w.await(id, "completed")
	assert.Equal(t, 1, r.Attempt)
	assert.NotContains(t, r.Metadata, "amboy:parked")
}

func TestOnlyTheChosenKindsAreTaken(t *testing.T) {
	w := newWorld(t)
	chosen, other := define(t, nothing), define(t, nothing)
	left := w.insert(pythonJob{kind: other})
	id := w.insert(pythonJob{kind: chosen})
	w.start(func(s *settings) { s.Kinds = []string{chosen} })
	w.await(id, "completed")
	r := w.row(left)
	assert.Equal(t, "available", r.State)
	assert.Nil(t, r.AttemptedBy)
}

func TestAGroupRunsAllChosenQueuesAndNoOther(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	left := w.insert(pythonJob{kind: kind, queue: "c"})
	a, b := w.insert(pythonJob{kind: kind, queue: "a"}), w.insert(pythonJob{kind: kind, queue: "b", scheduledAt: time.Now().Add(time.Second)})
	d := w.open(func(o *riverjob.Options) { o.Queues = []string{"a", "b"} })
	g, err := queue.NewDriverGroup(w.ctx, queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{Driver: d, NumWorkers: 2}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close(context.WithoutCancel(w.ctx))) }()
	w.await(a, "completed")
	w.await(b, "completed")
	assert.Equal(t, "available", w.row(left).State)
}

func TestAQueueThatTheDriverDoesNotRunStoppedAllOthersOfItsGroup(t *testing.T) {
	w := newWorld(t)
	id := w.insert(pythonJob{kind: "x"})
	claimed, err := w.open().Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "unknown", Limit: 1}, {Queue: "default", Limit: 1}}, Limit: 2, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	assert.Equal(t, fmt.Sprint(id), claimed.Records[0].JobID())
}

func TestAPutIsRefused(t *testing.T) {
	w := newWorld(t)
	definition := job.Define(fmt.Sprintf("kind_%d", lastKind.Add(1)), 1, nothing)
	q := w.start()
	_, err := definition.Put(w.ctx, q, args{})
	require.ErrorContains(t, err, "insert the job with a client of River")
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(w.ctx)) }()
	_, err = definition.Put(postgres.WithTx(w.ctx, tx), q, args{})
	require.ErrorIs(t, err, amboy.ErrForeignTransaction)
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job`))
}

func TestTheTimeoutAndTheRetryPolicyOfADefinitionApply(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		<-ctx.Done()
		return ctx.Err()
	}, job.Defaults[args]{Timeout: 50 * time.Millisecond, RetryPolicy: fixed(time.Hour)})
	id := w.insert(pythonJob{kind: kind})
	w.start()
	r := w.await(id, "retryable")
	assert.InDelta(t, 3600, r.ScheduledAt.Sub(*r.AttemptedAt).Seconds(), 60)
}

// retry.Fixed{} means that the next attempt starts at once. The third waited for 16 seconds.
func TestAPolicyThatDoesNotWaitCountedAsNone(t *testing.T) {
	w := newWorld(t)
	id := w.insert(pythonJob{kind: define(t, func(context.Context, args) error { return errDisk }, job.Defaults[args]{RetryPolicy: retry.Fixed{}}), maxAttempts: 3})
	w.start()
	w.await(id, "discarded")
	errs := w.errorsOf(id)
	require.Len(t, errs, 3)
	second, err := time.Parse(time.RFC3339Nano, *errs[1].At)
	require.NoError(t, err)
	third, err := time.Parse(time.RFC3339Nano, *errs[2].At)
	require.NoError(t, err)
	assert.Less(t, third.Sub(second), 14*time.Second)
}

type fixed time.Duration

// Delay implements amboy.RetryPolicy.
func (f fixed) Delay(int) time.Duration { return time.Duration(f) }

// Validate implements amboy.RetryPolicy.
func (fixed) Validate() error { return nil }

func TestCloseHandsRunningJobsBack(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		<-ctx.Done()
		return ctx.Err()
	})
	id := w.insert(pythonJob{kind: kind})
	q := w.start()
	w.await(id, "running")
	ended, cancel := context.WithCancel(w.ctx)
	cancel()
	q.Close(ended)
	r := w.await(id, "available")
	assert.Zero(t, r.Attempt, "a hand-back is no attempt")
	assert.Nil(t, r.Errors)
}

func TestAnOutcomeThatCanNotBeStoredDiscardsTheJob(t *testing.T) {
	w := newWorld(t)
	kind := fmt.Sprintf("kind_%d", lastKind.Add(1))
	require.NoError(t, job.DefineResult(kind, 1, func(context.Context, args) (string, error) { return "a zero byte: \x00", nil }).Err())
	other := define(t, nothing)
	id := w.insert(pythonJob{kind: kind})
	for range 3 {
		w.insert(pythonJob{kind: other})
	}
	w.start()
	w.await(id, "discarded")
	assert.Contains(t, *w.errorsOf(id)[0].Error, "outcome can't be stored")
	w.awaitCount("default", "completed", 3)
}

func TestAZeroByteInProgressDoesNoHarm(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		job.Log(ctx, "a zero byte: \x00")
		return job.SetProgress(ctx, 0.5, "half \x00")
	})
	id := w.insert(pythonJob{kind: kind})
	q := w.start()
	w.await(id, "completed")
	j, ok := q.Get(w.ctx, fmt.Sprint(id))
	require.True(t, ok)
	assert.Equal(t, "half \uFFFD", amboy.ProgressOf(j).Message)
}

func TestAnAttemptBeganWithTheProgressOfTheOneBefore(t *testing.T) {
	w := newWorld(t)
	var began atomic.Bool
	kind := define(t, func(ctx context.Context, _ args) error {
		j, _ := job.FromContext(ctx)
		began.Store(amboy.ProgressOf(j) != nil)
		attempt := job.AttemptFrom(ctx)
		job.Log(ctx, "attempt %d", attempt)
		if attempt == 0 {
			return errDisk
		}
		return nil
	})
	id := w.insert(pythonJob{kind: kind})
	w.start()
	logs := w.await(id, "completed").Metadata["river:log"].([]any)
	assert.False(t, began.Load(), "the last attempt has reported nothing when it begins")
	require.Len(t, logs, 2)
	assert.NotContains(t, logs[1].(map[string]any)["log"], "attempt 0")

	id = w.insert(pythonJob{kind: kind, maxAttempts: 1})
	assert.Contains(t, w.await(id, "discarded").Metadata, "amboy:progress")
	_, err := w.open().Act(w.ctx, driver.ActRequest{
		Query: driver.Query{JobIDs: []string{fmt.Sprint(id)}}, Action: driver.Action{Kind: driver.Restart}, Limit: 1,
	})
	require.NoError(t, err)
	w.await(id, "completed")
	assert.False(t, began.Load())
}

// TestARetryHandlerMayDecideLater makes the calls of a queue whose retry handler is not its own.
func TestARetryHandlerMayDecideLater(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	fail := func() (id int64, ended *driver.Record) {
		id = w.insert(pythonJob{kind: "x"})
		claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute})
		require.NoError(t, err)
		require.Len(t, claimed.Records, 1)
		ended = claimed.Records[0]
		lease := driver.LeaseOf(ended)
		ended.Status.InProgress, ended.Status.Completed = false, true
		ended.Status.AddError(errDisk, 0, time.Now())
		ended.RetryInfo.NeedsRetry = true
		ended.TimeInfo.End = time.Now()
		errs, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: ended}})
		require.NoError(t, err)
		require.NoError(t, errs[0])
		assert.Equal(t, "available", w.row(id).State, "it is retried even if the handler never decides")
		return id, ended
	}
	id, ended := fail()
	next := *ended
	next.TimeInfo = amboy.JobTimeInfo{Created: time.Now(), WaitUntil: time.Now().Add(time.Hour)}
	require.NoError(t, d.Retry(w.ctx, ended, &next))
	r := w.row(id)
	assert.Equal(t, "retryable", r.State)
	assert.InDelta(t, 3600, r.ScheduledAt.Sub(r.Now).Seconds(), 60)

	id, ended = fail()
	require.NoError(t, d.EndRetry(w.ctx, ended))
	assert.Equal(t, "discarded", w.row(id).State)
	ended.RetryInfo.CurrentAttempt = 7
	require.ErrorIs(t, d.EndRetry(w.ctx, ended), driver.ErrLeaseLost)
}

// A retry by River UI came between the end of the last attempt and the retry handler's.
func TestAnOperatorsRetryWasUndoneByTheRetryHandler(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x", maxAttempts: 1})
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute})
	require.NoError(t, err)
	ended := claimed.Records[0]
	lease := driver.LeaseOf(ended)
	ended.Status.InProgress, ended.Status.Completed = false, true
	ended.Status.AddError(errDisk, 0, time.Now())
	ended.RetryInfo.NeedsRetry = true
	errs, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: ended}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	require.Equal(t, "discarded", w.row(id).State)
	_, err = w.client().JobRetry(w.ctx, id)
	require.NoError(t, err)
	require.NoError(t, d.EndRetry(w.ctx, ended))
	assert.Equal(t, "available", w.row(id).State)
}

// The handler of a process that was suspended ended a job that an operator had canceled and retried since, or whose
// next attempt another process had handed back.
func TestASlowRetryHandlerEndedALaterRun(t *testing.T) {
	actOn := func(w *world, d *riverjob.Driver, id int64, kind driver.ActionKind) {
		acted, err := d.Act(w.ctx, driver.ActRequest{Query: driver.Query{JobIDs: []string{fmt.Sprint(id)}}, Action: driver.Action{Kind: kind}, Limit: 1})
		require.NoError(w.t, err)
		require.Equal(w.t, 1, acted.Done)
	}
	for name, meanwhile := range map[string]func(w *world, d *riverjob.Driver, id int64){
		"canceled and retried": func(w *world, d *riverjob.Driver, id int64) {
			actOn(w, d, id, driver.Cancel)
			actOn(w, d, id, driver.Restart)
		},
		"retried by River": func(w *world, _ *riverjob.Driver, id int64) {
			w.exec("UPDATE {s}.river_job SET state = 'retryable'") // as after a longer wait
			_, err := w.client().JobRetry(w.ctx, id)
			require.NoError(w.t, err)
		},
		"canceled and retried by River": func(w *world, _ *riverjob.Driver, id int64) {
			_, err := w.client().JobCancel(w.ctx, id)
			require.NoError(w.t, err)
			_, err = w.client().JobRetry(w.ctx, id)
			require.NoError(w.t, err)
		},
		"handed back": func(w *world, d *riverjob.Driver, _ int64) {
			var next []*driver.Record
			w.eventually("the next attempt is due", func() bool {
				next = claimOne(w.ctx, w.t, d)
				return len(next) > 0
			})
			errs, err := d.Release(w.ctx, []driver.HandBack{{Lease: driver.LeaseOf(next[0])}})
			require.NoError(w.t, errors.Join(append(errs, err)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.open()
			id := w.insert(pythonJob{kind: "x"})
			claimed := claimOne(w.ctx, t, d)
			require.Len(t, claimed, 1)
			ended := claimed[0]
			lease := driver.LeaseOf(ended)
			ended.Status.InProgress, ended.Status.Completed = false, true
			ended.Status.AddError(errDisk, 0, time.Now())
			ended.RetryInfo.NeedsRetry = true
			errs, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: ended}})
			require.NoError(t, errors.Join(append(errs, err)...))
			meanwhile(w, d, id)
			require.Equal(t, "available", w.row(id).State)
			require.ErrorIs(t, d.EndRetry(w.ctx, ended), driver.ErrLeaseLost)
			assert.Equal(t, "available", w.row(id).State)
		})
	}
}

func TestPollOnlyWorksBehindAPoolerInTransactionMode(t *testing.T) {
	w := newWorld(t)
	pooler := pgtest.PoolerURL(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		<-ctx.Done()
		return ctx.Err()
	})
	w.start(func(s *settings) { s.URL, s.Pool, s.PollOnly = pooler, nil, true })
	id := w.insert(pythonJob{kind: kind})
	w.await(id, "running")
	_, err := w.client().JobCancel(w.ctx, id)
	require.NoError(t, err)
	w.await(id, "cancelled")
}

func TestOperatorsActOnRiversJobs(t *testing.T) {
	w := newWorld(t)
	kind := define(t, nothing)
	d := w.open()
	inspector, err := management.NewStoreInspector(d)
	require.NoError(t, err)
	act := func(id int64, action management.Action) error {
		acted, failure := inspector.ActOn(w.ctx, "default", fmt.Sprint(id), action)
		if failure == nil {
			assert.Equal(t, 1, acted.Done, action.Kind)
		}
		return failure
	}
	id := w.insert(pythonJob{kind: kind, scheduledAt: time.Now().Add(time.Hour), unique: "x"})
	require.NoError(t, act(id, management.Action{Kind: management.Retry}))
	assert.Equal(t, "available", w.row(id).State)
	require.NoError(t, act(id, management.Action{Kind: management.Reschedule, At: time.Now().Add(time.Hour)}))
	assert.Equal(t, "scheduled", w.row(id).State)
	require.NoError(t, act(id, management.Action{Kind: management.Prioritize, Priority: new(-4)}))
	assert.Equal(t, 4, ask[int](w, `SELECT priority FROM {s}.river_job`))
	err = act(id, management.Action{Kind: management.Prioritize, Priority: new(3)})
	require.ErrorContains(t, err, "Priority must be from -1")
	require.ErrorIs(t, err, management.ErrUnsupported)
	_, err = inspector.EditJob(w.ctx, "default", fmt.Sprint(id), management.JobEdit{Priority: new(-2)})
	require.ErrorContains(t, err, "can't be edited")
	require.ErrorIs(t, err, management.ErrUnsupported)
	require.NoError(t, act(id, management.Action{Kind: management.Cancel}))
	assert.Equal(t, "cancelled", w.row(id).State)
	other := w.insert(pythonJob{kind: kind, unique: "x", scheduledAt: time.Now().Add(time.Hour)})
	acted, err := d.Act(w.ctx, driver.ActRequest{
		Query: driver.Query{JobIDs: []string{fmt.Sprint(id)}}, Action: driver.Action{Kind: driver.Restart}, Limit: 1,
	})
	require.NoError(t, err)
	assert.Equal(t, driver.Acted{Skipped: 1, Next: driver.Cursor(fmt.Sprint(id))}, acted, "its unique key is taken")
	assert.Equal(t, "cancelled", w.row(id).State)
	require.NoError(t, act(id, management.Action{Kind: management.Delete}))
	assert.Equal(t, []int64{other}, ask[[]int64](w, `SELECT array_agg(id) FROM {s}.river_job`))

	// Finding them.
	found := func(q driver.Query) int {
		n, err := d.Count(w.ctx, q, 10)
		require.NoError(t, err)
		page, err := d.Find(w.ctx, q, driver.PageRequest{Limit: 10})
		require.NoError(t, err)
		assert.Len(t, page.Records, n)
		for _, r := range page.Records {
			if len(q.States) > 0 {
				assert.Contains(t, q.States, driver.StateOf(r, time.Now()))
			}
		}
		return n
	}
	w.exec(`UPDATE {s}.river_job SET tags = ARRAY['Red'], errors = ARRAY['{"error": "Disk full"}']::jsonb[] WHERE id = $1`, other)
	for _, q := range []driver.Query{
		{},
		{Queues: []string{"default"}},
		{States: []amboy.JobState{amboy.StateScheduled}},
		{Types: []string{kind}},
		{ID: fmt.Sprint(other)[:1] + "*"},
		{IDPart: fmt.Sprint(other)},
		{TypePart: kind[1:]},
		{TagPart: "RE"},
		{Tags: []string{"Red"}},
		{Created: driver.TimeRange{From: time.Now().Add(-time.Hour)}},
		{Due: driver.TimeRange{From: time.Now(), To: time.Now().Add(2 * time.Hour)}},
	} {
		assert.Equal(t, 1, found(q), "%+v", q)
	}
	for _, q := range []driver.Query{
		{Queues: []string{"another"}},
		{States: []amboy.JobState{amboy.StatePending}},
		{States: []amboy.JobState{amboy.StateBlocked}},
		{Types: []string{"x"}},
		{ID: "x*"},
		{IDPart: "x"},
		{TagPart: "x"},
		{Tags: []string{"red"}},
		{Scope: "x"},
		{Holding: true},
		{Error: "disk"},
		{Ended: driver.TimeRange{From: time.Now()}},
	} {
		assert.Zero(t, found(q), "%+v", q)
	}
	w.exec(`UPDATE {s}.river_job SET state = 'discarded', finalized_at = now()`)
	assert.Equal(t, 1, found(driver.Query{Error: "disk FULL", States: []amboy.JobState{amboy.StateFailed}}))
}

func TestARenewalMayChangeTheLengthOfTheLease(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x"})
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Microsecond})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	lease := driver.LeaseOf(claimed.Records[0])
	lost, err := d.Extend(w.ctx, []driver.Lease{lease}, time.Hour)
	require.NoError(t, err)
	assert.Empty(t, lost)
	assert.Equal(t, []string{"me#1/1h0m0s"}, w.row(id).AttemptedBy)
	n, err := d.RecoverStale(w.ctx)
	require.NoError(t, err)
	assert.Zero(t, n)

	_, err = d.Extend(w.ctx, []driver.Lease{lease}, time.Microsecond)
	require.NoError(t, err)
	n, err = d.RecoverStale(w.ctx, lease)
	require.NoError(t, err)
	assert.Zero(t, n, "its run has not returned")
	n, err = d.RecoverStale(w.ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	lost, err = d.Extend(w.ctx, []driver.Lease{lease}, time.Hour)
	require.NoError(t, err)
	assert.Equal(t, []driver.Lease{lease}, lost)
	errs, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: claimed.Records[0]}})
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
}

// A process that claimed a job again which River's rescuer had taken from it never learned that its
// first run had lost its lease, and went on with both.
func TestALostLeaseCountedAsRenewedBesideANewerOneOfItsJob(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x"})
	claim := func() driver.Lease {
		claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute})
		require.NoError(t, err)
		require.Len(t, claimed.Records, 1)
		return driver.LeaseOf(claimed.Records[0])
	}
	first := claim()
	w.exec(`UPDATE {s}.river_job SET state = 'available' WHERE id = $1`, id)
	second := claim()
	lost, err := d.Extend(w.ctx, []driver.Lease{first, second}, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, []driver.Lease{first}, lost)
}

func TestOpenNamesWhatToDo(t *testing.T) {
	w := newWorld(t)
	open := func(opts riverjob.Options) error {
		if opts.Queues == nil {
			opts.Queues = []string{"default"}
		}
		d, err := riverjob.Open(w.ctx, opts)
		if err == nil {
			require.NoError(t, d.Close(w.ctx))
		}
		return err
	}
	require.ErrorContains(t, open(riverjob.Options{URL: "postgres://:no port"}), "must be a connection string")
	require.ErrorContains(t, open(riverjob.Options{Pool: w.pool}), "search path")

	readOnly := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	require.ErrorContains(t, open(riverjob.Options{Pool: readOnly, Schema: w.schema}), "turn it off for this role")

	role := w.schema + "_reader"
	w.exec(`CREATE ROLE ` + role)
	t.Cleanup(func() {
		_, err := w.pool.Exec(context.WithoutCancel(w.ctx), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
	})
	w.exec(`GRANT USAGE ON SCHEMA {s} TO ` + role)
	w.exec(`GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO ` + role)
	reader := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	err := open(riverjob.Options{Pool: reader, Schema: w.schema})
	require.ErrorContains(t, err, "grant it UPDATE on")
	require.ErrorContains(t, err, "INSERT on")

	// The search path finds the schema.
	path := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = w.schema })
	require.NoError(t, open(riverjob.Options{Pool: path}))
	withPath, err := url.Parse(pgtest.URL(t))
	if err == nil && withPath.Scheme != "" {
		query := withPath.Query()
		query.Set("search_path", w.schema)
		withPath.RawQuery = query.Encode()
		require.NoError(t, open(riverjob.Options{URL: withPath.String()}))
	}

	d := w.open()
	_, err = d.Control(w.ctx, "default", driver.ControlChange{MaxRunning: new(3)})
	require.ErrorContains(t, err, "only pausing is possible")
	require.ErrorIs(t, err, driver.ErrUnsupported)
	_, err = d.Claim(w.ctx, driver.ClaimRequest{Owner: "x", Queues: []driver.Demand{{Queue: "other", Limit: 1}}, Limit: 1})
	require.ErrorContains(t, err, `queue "other": Options.Queues must name it`)
	require.NoError(t, d.Close(w.ctx))
	_, err = d.Claim(w.ctx, driver.ClaimRequest{Owner: "x", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1})
	require.ErrorIs(t, err, driver.ErrClosed)
}
