package management_test

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

var variants = flag.Bool("management.variants", false, "run all tests on the variants of queues too")

// kinds are the queues on which the tests run. Each is started, with the number of workers
// in the constant workers.
var kinds = []kind{
	{name: "local", open: openLocal},
	{name: "local in a group", wider: true, open: openInLocalGroup},
	{name: "foreign", open: func(t *testing.T) amboy.Queue { return foreign{openLocal(t)} }},
	{name: "serializable", stored: true, open: openSerializable},
	{name: "sqlite", stored: true, open: openSQLite},
	{name: "sqlite in a group", variant: true, stored: true, wider: true, group: "tenant.one", open: openInSQLiteGroup},
	{name: "postgres", stored: true, open: openPostgres},
	{name: "memory in a group", stored: true, wider: true, group: "tenant.one", open: openInMemoryGroup},
}

const workers = 2

type kind struct {
	name string
	// stored: the jobs are in a store, and have leases.
	stored bool
	// variant: its parts are tested with other kinds. Unless -management.variants is set,
	// it runs only the tests that use onAll, and those of the inspector of a database.
	variant bool
	// wider: the queue is in a group that can be inspected.
	wider bool
	// database: the queue is in a database that can be inspected without a queue.
	database bool
	// group is the expected group of the jobs.
	group string
	open  func(*testing.T) amboy.Queue
}

// foreign hides everything but the amboy.Queue interface.
type foreign struct{ amboy.Queue }

func started(t *testing.T, q amboy.Queue, err error) amboy.Queue {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	require.NoError(t, q.Start(context.Background()))
	return q
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// closeGroup closes a group whose jobs have ended or wait. On a busy machine that takes longer than Close
// tries after its context has ended.
func closeGroup(t *testing.T, group amboy.QueueGroup) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	assert.NoError(t, group.Close(ctx))
}

func openLocal(t *testing.T) amboy.Queue {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: workers})
	return started(t, q, err)
}

func openSerializable(t *testing.T) amboy.Queue {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: newMemory(t), CloseDriver: true, NumWorkers: workers, Format: amboy.JSON,
	})
	return started(t, q, err)
}

func openSQLite(t *testing.T) amboy.Queue {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newSQLite(t), CloseDriver: true, NumWorkers: workers})
	return started(t, q, err)
}

func newSQLite(t *testing.T) driver.Driver {
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	return withoutRetries{store}
}

func openPostgres(t *testing.T) amboy.Queue {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newPostgres(t), CloseDriver: true, NumWorkers: workers})
	return started(t, q, err)
}

func newPostgres(t *testing.T) driver.Driver {
	store, err := postgres.Open(t.Context(), postgres.Options{Pool: pgtest.Pool(t), Schema: pgtest.EmptySchema(t)})
	require.NoError(t, err)
	return withoutRetries{store}
}

func newMemory(t *testing.T) driver.Driver {
	store, err := memory.New(memory.Options{KeepFinished: 10_000})
	require.NoError(t, err)
	return withoutRetries{store}
}

// withoutRetries hides jobs that await a retry from queues, which would otherwise recover
// those of other processes. It shows them to the test itself.
type withoutRetries struct{ driver.Driver }

type testKey struct{}

func (d withoutRetries) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if slices.Equal(q.States, []amboy.JobState{amboy.StateRetrying}) && ctx.Value(testKey{}) == nil {
		return driver.Page{}, nil
	}
	return d.Driver.Find(ctx, q, page)
}

func openInLocalGroup(t *testing.T) amboy.Queue {
	group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocal(queue.LocalOptions{NumWorkers: workers})
		}},
	})
	return inGroup(t, group, err)
}

func openInSQLiteGroup(t *testing.T) amboy.Queue { return inDriverGroup(t, newSQLite(t)) }

func openInMemoryGroup(t *testing.T) amboy.Queue { return inDriverGroup(t, newMemory(t)) }

func inDriverGroup(t *testing.T, store driver.Driver) amboy.Queue {
	group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: workers},
	})
	return inGroup(t, group, err)
}

func inGroup(t *testing.T, group amboy.QueueGroup, err error) amboy.Queue {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { closeGroup(t, group) })
	q, err := group.Get(t.Context(), "tenant.one")
	require.NoError(t, err)
	other, err := group.Get(t.Context(), "tenant")
	require.NoError(t, err)
	require.NoError(t, other.Put(t.Context(), newTask("one.pending", "alpha"))) // must be neither visible nor changed
	require.True(t, amboy.WaitJob(t.Context(), newTask("one.pending", "alpha"), other))
	wider.Store(q, func(t *testing.T) management.Inspector {
		i, err := management.NewGroupInspector(group)
		require.NoError(t, err)
		return i
	})
	t.Cleanup(func() { wider.Delete(q) })
	return q
}

// task runs the function that a test registered for its key. By default it does nothing.
type task struct {
	job.Base `bson:"job_base" json:"job_base"`
	Key      string `bson:"key" json:"key"`
}

// runs maps keys of tasks to functions.
var runs sync.Map

func newTask(id, jobType string) *task {
	j := &task{}
	j.SetID(id)
	j.SetType(amboy.JobType{Name: jobType})
	return j
}

// tonight returns a task that is due in an hour.
func tonight(id string) amboy.Job {
	j := newTask(id, "alpha")
	j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	return j
}

func init() {
	for _, name := range []string{"alpha", "beta"} {
		registry.AddJobType(name, func() amboy.Job { return newTask("", name) })
	}
}

func (j *task) Run(ctx context.Context) {
	defer j.MarkComplete()
	if run, ok := runs.Load(j.Key); ok {
		run.(func(context.Context, *task))(ctx, j)
	}
}

// doing returns a task that calls run.
func doing(t *testing.T, id, jobType string, run func(context.Context, *task)) *task {
	j := newTask(id, jobType)
	j.Key = t.Name() + "/" + id
	runs.Store(j.Key, run)
	t.Cleanup(func() { runs.Delete(j.Key) })
	return j
}

// fixture contains a queue and a manager of it.
type fixture struct {
	*testing.T
	kind
	ctx     context.Context
	queue   amboy.Queue
	manager management.Manager
	// released is closed to end the tasks that hold puts.
	released chan struct{}
	release  func()
	// canceled receives the cause of the end of the context of such a task.
	canceled chan error
}

const patience = 30 * time.Second

// onEach runs a test on each kind of queue that runs all tests.
func onEach(t *testing.T, test func(*fixture)) {
	t.Helper()
	onSelected(t, byDefault, test)
}

// byDefault reports whether a kind runs all tests.
func byDefault(k kind) bool { return !k.variant || *variants }

// onAll is like onEach, and includes the variants.
func onAll(t *testing.T, test func(*fixture)) {
	t.Helper()
	onSelected(t, func(kind) bool { return true }, test)
}

func onSelected(t *testing.T, apply func(kind) bool, test func(*fixture)) {
	t.Helper()
	for _, k := range kinds {
		if !apply(k) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), testKey{}, true), patience)
			defer cancel()
			released := make(chan struct{})
			q := k.open(t)
			f := &fixture{
				T: t, kind: k, ctx: ctx, queue: q,
				manager:  management.NewQueueManager(q),
				released: released,
				release:  sync.OnceFunc(func() { close(released) }),
				canceled: make(chan error, 100),
			}
			defer f.release()
			test(f)
		})
	}
}

func (f *fixture) put(jobs ...amboy.Job) {
	f.Helper()
	require.NoError(f, f.queue.PutMany(f.ctx, jobs))
}

// hold puts a task that runs until it is released or canceled, and waits until it runs.
func (f *fixture) hold(id, jobType string, scopes ...string) {
	f.Helper()
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	j := doing(f.T, id, jobType, func(ctx context.Context, j *task) {
		begin()
		select {
		case <-f.released:
		case <-ctx.Done():
			f.canceled <- context.Cause(ctx)
			if errors.Is(context.Cause(ctx), amboy.ErrLeaseLost) {
				return // the lease is lost: the job's result does not matter
			}
		}
		j.AddRetryableError(assert.AnError)
	})
	j.SetScopes(scopes)
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	f.put(j)
	select {
	case <-began:
	case <-f.ctx.Done():
		require.Fail(f, "the job did not start", id)
	}
}

// fail returns a task that fails.
func (f *fixture) fail(id, jobType string) *task {
	return doing(f.T, id, jobType, func(_ context.Context, j *task) { j.AddError(assert.AnError) })
}

func (f *fixture) wait(ids ...string) {
	f.Helper()
	for _, id := range ids {
		require.True(f, amboy.WaitJob(f.ctx, newTask(id, "alpha"), f.queue), id)
	}
}

func (f *fixture) infos() map[string]amboy.JobInfo {
	infos := map[string]amboy.JobInfo{}
	for info := range f.queue.JobInfo(f.ctx) {
		infos[info.ID] = info
	}
	return infos
}

func (f *fixture) state(id string) amboy.JobState { return f.infos()[id].State }

// store returns the store of a stored queue.
func (f *fixture) store() *queue.Store {
	f.Helper()
	store, ok := queue.StoreOf(f.queue)
	require.True(f, ok)
	return store
}

// claim claims a job for another process, while all workers here are busy.
func (f *fixture) claim(id string) *driver.Record {
	f.Helper()
	store := f.store()
	claimed, err := store.Driver().Claim(f.ctx, driver.ClaimRequest{
		Owner: "another process", Queues: []driver.Demand{{Queue: store.Queues()[0], Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: 24 * time.Hour, // so that it is not recovered meanwhile
	})
	require.NoError(f, err)
	require.Len(f, claimed.Records, 1)
	require.Equal(f, id, claimed.Records[0].JobID())
	return claimed.Records[0]
}

// askForRetry completes an attempt of another process that needs a retry.
func (f *fixture) askForRetry(r *driver.Record) {
	f.Helper()
	after := *r
	after.Status.Completed, after.Status.InProgress = true, false
	after.Status.ErrorCount, after.Status.Errors = 1, []string{"it failed"}
	after.RetryInfo.NeedsRetry = true
	after.TimeInfo.End = time.Now()
	errs, err := f.store().Driver().Complete(f.ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: &after}})
	require.NoError(f, err)
	require.NoError(f, errs[0])
}

// populate puts jobs of both types, one in each state that the kind of queue supports.
func (f *fixture) populate() {
	f.Helper()
	f.put(newTask("done", "alpha"), f.fail("failed", "beta"))
	f.wait("done", "failed")
	f.hold("running 1", "alpha", "ledger")
	f.hold("running 2", "beta")
	if f.stored {
		f.populateElsewhere()
	}
	scheduled, blocked := newTask("scheduled", "beta"), newTask("blocked", "alpha")
	scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	blocked.SetScopes([]string{"ledger"})
	f.put(newTask("pending 1", "alpha"), newTask("pending 2", "beta"), scheduled, blocked)
	if f.stored {
		f.put(newTask("parked", "alpha"))
		acted, err := f.store().Driver().Act(f.ctx, driver.ActRequest{
			Query: driver.Query{Queues: f.store().Queues(), ID: "parked"}, Action: driver.Action{Kind: driver.Park}, Limit: 1000,
		})
		require.NoError(f, err)
		require.Equal(f, 1, acted.Done)
	}
}

// populateElsewhere puts jobs that another process has claimed.
func (f *fixture) populateElsewhere() {
	f.Helper()
	before := time.Now().Add(-time.Hour)
	for _, one := range []struct {
		id             string
		stale, retries bool
	}{{"stale", true, false}, {"retrying", false, true}, {"stale retrying", true, true}} {
		j := newTask(one.id, "beta")
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(one.retries)})
		var r *driver.Record
		if one.stale {
			j.SetStatus(amboy.JobStatusInfo{InProgress: true, Owner: "another process", ModificationTime: before, ModificationCount: 1})
			j.UpdateTimeInfo(amboy.JobTimeInfo{Start: before})
			f.put(j)
			r = f.record(one.id)
		} else {
			f.put(j)
			r = f.claim(one.id)
		}
		if one.retries {
			f.askForRetry(r)
		}
	}
}

// record returns the stored record of a job.
func (f *fixture) record(id string) *driver.Record {
	f.Helper()
	store := f.store()
	r, err := store.Driver().Get(f.ctx, store.Queues()[0], id)
	require.NoError(f, err)
	return r
}
