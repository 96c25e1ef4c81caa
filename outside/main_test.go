package outside_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

const (
	queueName = "mail"
	typeName  = "outside-test"
)

// patience ends a test that would wait for ever. No test is about how fast a store is.
const patience = 5 * time.Minute

var noOptions = outside.Options{}

var jobType = amboy.JobType{Name: typeName, Version: 1}

// stores open drivers on one store each.
var stores = map[string]func(t *testing.T) func() driver.Driver{
	"memory": func(t *testing.T) func() driver.Driver {
		t.Helper()
		store := outsidetest.Memory(t)
		return func() driver.Driver { return store }
	},
	"sqlite": func(t *testing.T) func() driver.Driver {
		t.Helper()
		path := filepath.Join(t.TempDir(), "jobs.db")
		return func() driver.Driver { return outsidetest.SQLite(t, path) }
	},
	"postgres": func(t *testing.T) func() driver.Driver {
		t.Helper()
		pool, schema := pgtest.Pool(t), pgtest.EmptySchema(t)
		return func() driver.Driver {
			store, err := postgres.Open(context.Background(), postgres.Options{Pool: pool, Schema: schema})
			require.NoError(t, err)
			return store
		}
	},
	"mongodb": func(t *testing.T) func() driver.Driver {
		t.Helper()
		d := mongotest.Open(t, mongotest.ReplicaSet())
		return func() driver.Driver {
			store, err := mongodb.Open(context.Background(), mongodb.Options{
				Client: d.Client(), DB: d.Database(), Collection: "outside", Grouped: true, PollInterval: 20 * time.Millisecond,
			})
			require.NoError(t, err)
			return store
		}
	},
}

// fixture is a process with a group of queues on a store, and a Dispatcher.
type fixture struct {
	*testing.T
	ctx        context.Context
	open       func() driver.Driver
	driver     driver.Driver
	group      amboy.QueueGroup
	dispatcher *outside.Dispatcher
	close      func()
}

// onEach runs a test on each store.
func onEach(t *testing.T, test func(*fixture)) {
	t.Helper()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			test(newFixture(t, ctx, open(t), outside.Options{}))
		})
	}
}

// inMemory runs a test in fake time.
func inMemory(t *testing.T, opts outside.Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, t.Context(), stores["memory"](t), opts)
		test(f)
		f.close()
	})
}

//nolint:contextcheck,revive // The context is not t.Context, and does not end the queues.
func newFixture(t *testing.T, ctx context.Context, open func() driver.Driver, opts outside.Options) *fixture {
	t.Helper()
	store := open()
	_, isMemory := store.(*memory.Driver)
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{
		Driver: store, CloseDriver: !isMemory, Retryable: queue.RetryableQueueOptions{MaxInterruptions: 3},
	}, opts)
	return &fixture{T: t, ctx: ctx, open: open, driver: store, group: g.Queues, dispatcher: g.Dispatcher, close: g.Close}
}

// another returns another process on the same store.
func (f *fixture) another() *fixture {
	f.Helper()
	return newFixture(f.T, f.ctx, f.open, outside.Options{})
}

// queue returns the queue.
func (f *fixture) queue() amboy.Queue {
	f.Helper()
	q, err := f.group.Get(f.ctx, queueName)
	require.NoError(f, err)
	return q
}

// put puts a job with a number as its payload.
func (f *fixture) put(id, payload string, opts ...job.Option) {
	f.Helper()
	f.putAs(jobType, id, payload, opts...)
}

func (f *fixture) putAs(t amboy.JobType, id, payload string, opts ...job.Option) {
	f.Helper()
	j, err := job.NewOutside(t, job.Payload{JSON: json.RawMessage(payload)}, append([]job.Option{job.ID(id)}, opts...)...)
	require.NoError(f, err)
	require.NoError(f, f.queue().Put(f.ctx, j))
}

// request asks for one job.
func request() outside.LeaseRequest {
	return outside.LeaseRequest{Queues: []string{queueName}, Types: []string{typeName}, Worker: "w"}
}

func (f *fixture) lease(limit int) []outside.Job {
	f.Helper()
	req := request()
	req.Limit = limit
	jobs, err := f.dispatcher.Lease(f.ctx, req)
	require.NoError(f, err)
	return jobs
}

// leaseOne waits for a job, and leases it.
func (f *fixture) leaseOne() outside.Job {
	f.Helper()
	req := request()
	req.Wait = 30 * time.Second
	jobs, err := f.dispatcher.Lease(f.ctx, req)
	require.NoError(f, err)
	require.Len(f, jobs, 1)
	return jobs[0]
}

func (f *fixture) ack(ack outside.Ack) error {
	f.Helper()
	errs := f.dispatcher.Acknowledge(f.ctx, ack)
	require.Len(f, errs, 1)
	return errs[0]
}

func (f *fixture) complete(j outside.Job, result string) error {
	f.Helper()
	return f.ack(outside.Ack{Token: j.Token, Complete: &outside.Complete{Result: json.RawMessage(result)}})
}

func (f *fixture) fail(j outside.Job, how outside.Fail) error {
	f.Helper()
	return f.ack(outside.Ack{Token: j.Token, Fail: &how})
}

// record returns the stored form of a job.
func (f *fixture) record(id string) *driver.Record {
	f.Helper()
	r, err := f.driver.Get(f.ctx, queueName, id)
	require.NoError(f, err)
	return r
}

func (f *fixture) state(id string) amboy.JobState {
	f.Helper()
	return driver.StateOf(f.record(id), time.Now())
}

func (f *fixture) hasState(id string, want amboy.JobState) {
	f.Helper()
	assert.Equal(f, want, f.state(id))
}

// reaches waits until a job has a state: the retry handler ends jobs without attempts left.
func (f *fixture) reaches(id string, want amboy.JobState) {
	f.Helper()
	require.Eventually(f, func() bool { return f.state(id) == want }, patience, time.Millisecond)
}

func ids(jobs []outside.Job) []string {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.ID
	}
	return names
}
