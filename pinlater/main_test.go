package pinlater_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

// stores open drivers on one store each.
var stores = map[string]func(t testing.TB) driver.Driver{
	"memory": outsidetest.Memory,
	"sqlite": func(t testing.TB) driver.Driver {
		t.Helper()
		return outsidetest.SQLite(t, filepath.Join(t.TempDir(), "jobs.db"))
	},
}

// otherStores are used by tests of what stores may do differently.
var otherStores = map[string]func(t testing.TB) driver.Driver{
	"postgres": func(t testing.TB) driver.Driver {
		t.Helper()
		store, err := postgres.Open(context.Background(), postgres.Options{Pool: pgtest.Pool(t), Schema: pgtest.EmptySchema(t)})
		require.NoError(t, err)
		return store
	},
	"mongodb": func(t testing.TB) driver.Driver {
		t.Helper()
		d := mongotest.Open(t, mongotest.ReplicaSet())
		store, err := mongodb.Open(context.Background(), mongodb.Options{
			Client: d.Client(), DB: d.Database(), Collection: "pinlater", Grouped: true, PollInterval: 20 * time.Millisecond,
		})
		require.NoError(t, err)
		return store
	},
}

// fixture is a server on a store, and a client of it that has made the queue "mail".
type fixture struct {
	testing.TB
	ctx        context.Context
	driver     driver.Driver
	group      amboy.QueueGroup
	dispatcher *outside.Dispatcher
	server     *pinlater.Server
	listener   net.Listener
	close      func()
	client     *wire.PinLaterClient
}

const mail = "mail"

// onEach runs a test on each store, over TCP.
func onEach(t *testing.T, opts pinlater.Options, test func(*fixture)) {
	t.Helper()
	onThese(t, stores, opts, test)
}

// onAll runs a test on all stores, over TCP.
func onAll(t *testing.T, opts pinlater.Options, test func(*fixture)) {
	t.Helper()
	onThese(t, stores, opts, test)
	onThese(t, otherStores, opts, test)
}

func onThese(t *testing.T, these map[string]func(testing.TB) driver.Driver, opts pinlater.Options, test func(*fixture)) {
	t.Helper()
	for name, open := range these {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open(t), opts)
			f.createQueue(mail)
			test(f)
		})
	}
}

// overTCP runs a test on the memory store.
func overTCP(t *testing.T, opts pinlater.Options) *fixture {
	t.Helper()
	f := newFixture(t, stores["memory"](t), opts)
	f.createQueue(mail)
	return f
}

// inFakeTime runs a test on the memory store in fake time.
func inFakeTime(t *testing.T, opts pinlater.Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOn(t, stores["memory"](t), opts, outsidetest.NewPipes())
		f.createQueue(mail)
		test(f)
		f.close()
	})
}

func newFixture(t testing.TB, store driver.Driver, opts pinlater.Options) *fixture {
	t.Helper()
	return newFixtureOn(t, store, opts, outsidetest.Listen(t))
}

func newFixtureOn(t testing.TB, store driver.Driver, opts pinlater.Options, listener net.Listener) *fixture {
	t.Helper()
	return newFixtureWith(t, queue.DriverQueueOptions{Driver: store, CloseDriver: true}, opts, listener)
}

func newFixtureWith(t testing.TB, queues queue.DriverQueueOptions, opts pinlater.Options, listener net.Listener) *fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	g := outsidetest.StartGroup(t, queues, outside.Options{})
	f := &fixture{TB: t, ctx: ctx, driver: queues.Driver, group: g.Queues, dispatcher: g.Dispatcher, listener: listener}
	f.serve(opts)
	stop := f.close
	f.close = func() {
		stop()
		g.Close()
	}
	return f
}

// serve starts the server and its client.
func (f *fixture) serve(opts pinlater.Options) {
	f.Helper()
	var err error
	f.server, err = pinlater.New(f.group, f.dispatcher, opts)
	require.NoError(f, err)
	f.close = outsidetest.Serve(f, f.server, f.listener)
	f.client = f.connect()
}

// dial opens a connection.
func (f *fixture) dial() net.Conn {
	f.Helper()
	return f.dialFor(f)
}

// dialFor opens a connection for a test.
func (f *fixture) dialFor(t testing.TB) net.Conn {
	t.Helper()
	var conn net.Conn
	var err error
	if pipes, ok := f.listener.(*outsidetest.Pipes); ok {
		conn, err = pipes.Dial()
	} else {
		conn, err = new(net.Dialer).DialContext(f.ctx, "tcp", f.listener.Addr().String())
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connect returns a generated client on a connection of its own.
func (f *fixture) connect() *wire.PinLaterClient {
	f.Helper()
	return clientOn(f.dial())
}

// clientOn returns a generated client on a connection.
func clientOn(conn net.Conn) *wire.PinLaterClient {
	config := &thrift.TConfiguration{}
	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, config), config)
	p := thrift.NewTBinaryProtocolConf(framed, config)
	return wire.NewPinLaterClient(thrift.NewTStandardClient(p, p))
}

// from is the context of calls by a source.
func from(source string) *wire.RequestContext {
	c := wire.NewRequestContext()
	c.Source = source
	return c
}

var test = from("test")

func (f *fixture) createQueue(name string) {
	f.Helper()
	require.NoError(f, f.client.CreateQueue(f.ctx, test, name))
}

// hasCode requires an exception of the interface with a code.
func (f *fixture) hasCode(err error, code wire.ErrorCode) {
	f.Helper()
	var e *wire.PinLaterException
	require.ErrorAs(f, err, &e)
	require.Equal(f, code, e.ErrorCode, e.Message)
}

// hasType requires a failure outside of the interface with a type.
func (f *fixture) hasType(err error, kind int32) {
	f.Helper()
	var e thrift.TApplicationException
	require.ErrorAs(f, err, &e)
	require.Equal(f, kind, e.TypeId(), e.Error())
}

// sleep lets time pass, and connects again, because the server closes an idle connection.
func (f *fixture) sleep(d time.Duration) {
	f.Helper()
	time.Sleep(d)
	f.client = f.connect()
}

func newJob(body string) *wire.PinLaterJob {
	j := wire.NewPinLaterJob()
	j.Body = []byte(body)
	return j
}

// jobOf returns a job with a priority.
func jobOf(priority int8, body string) *wire.PinLaterJob {
	j := newJob(body)
	j.Priority = priority
	return j
}

func later(j *wire.PinLaterJob, at time.Time) *wire.PinLaterJob {
	ms := at.UnixMilli()
	j.RunAfterTimestampMillis = &ms
	return j
}

func allowing(j *wire.PinLaterJob, attempts int32) *wire.PinLaterJob {
	j.NumAttemptsAllowed = attempts
	return j
}

func (f *fixture) tryEnqueue(queueName string, jobs ...*wire.PinLaterJob) ([]string, error) {
	r, err := f.client.EnqueueJobs(f.ctx, test, &wire.PinLaterEnqueueRequest{QueueName: queueName, Jobs: jobs})
	if err != nil {
		return nil, err
	}
	return r.JobDescriptors, nil
}

func (f *fixture) enqueue(jobs ...*wire.PinLaterJob) []string {
	f.Helper()
	descriptors, err := f.tryEnqueue(mail, jobs...)
	require.NoError(f, err)
	require.Len(f, descriptors, len(jobs))
	return descriptors
}

func (f *fixture) put(body string) string {
	f.Helper()
	return f.enqueue(newJob(body))[0]
}

func dequeueRequest(limit int32) *wire.PinLaterDequeueRequest {
	r := wire.NewPinLaterDequeueRequest()
	r.QueueName, r.Limit = mail, limit
	return r
}

func (f *fixture) dequeue(limit int32) *wire.PinLaterDequeueResponse {
	f.Helper()
	r, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(limit))
	require.NoError(f, err)
	return r
}

// dequeueOne dequeues a job, and returns its body.
func (f *fixture) dequeueOne() string {
	f.Helper()
	r := f.dequeue(1)
	require.Len(f, r.Jobs, 1)
	for _, body := range r.Jobs {
		return string(body)
	}
	return ""
}

func infoOf(descriptor string) *wire.PinLaterJobAckInfo {
	i := wire.NewPinLaterJobAckInfo()
	i.JobDescriptor = descriptor
	return i
}

func infosOf(descriptors []string) (infos []*wire.PinLaterJobAckInfo) {
	for _, d := range descriptors {
		infos = append(infos, infoOf(d))
	}
	return infos
}

func succeeded(descriptors ...string) *wire.PinLaterJobAckRequest {
	return &wire.PinLaterJobAckRequest{QueueName: mail, JobsSucceeded: infosOf(descriptors)}
}

func failed(descriptors ...string) *wire.PinLaterJobAckRequest {
	return &wire.PinLaterJobAckRequest{QueueName: mail, JobsFailed: infosOf(descriptors)}
}

func (f *fixture) ack(r *wire.PinLaterJobAckRequest) {
	f.Helper()
	require.NoError(f, f.client.AckDequeuedJobs(f.ctx, test, r))
}

func (f *fixture) lookup(descriptors ...string) map[string]*wire.PinLaterJobInfo {
	f.Helper()
	r := wire.NewPinLaterLookupJobRequest()
	r.JobDescriptors, r.IncludeBody = descriptors, true
	found, err := f.client.LookupJobs(f.ctx, test, r)
	require.NoError(f, err)
	return found
}

func (f *fixture) info(descriptor string) *wire.PinLaterJobInfo {
	f.Helper()
	info := f.lookup(descriptor)[descriptor]
	require.NotNil(f, info, descriptor)
	return info
}

func (f *fixture) hasState(descriptor string, state wire.PinLaterJobState, remaining int32) {
	f.Helper()
	info := f.info(descriptor)
	assert.Equal(f, state, info.JobState)
	assert.Equal(f, remaining, info.AttemptsRemaining)
}

func countRequest(state wire.PinLaterJobState) *wire.PinLaterGetJobCountRequest {
	r := wire.NewPinLaterGetJobCountRequest()
	r.QueueName, r.JobState = mail, state
	return r
}

func (f *fixture) count(state wire.PinLaterJobState) int {
	f.Helper()
	return f.countOf(countRequest(state))
}

func (f *fixture) countOf(r *wire.PinLaterGetJobCountRequest) int {
	f.Helper()
	n, err := f.client.GetJobCount(f.ctx, test, r)
	require.NoError(f, err)
	return int(n)
}

func scanRequest(state wire.PinLaterJobState) *wire.PinLaterScanJobsRequest {
	r := wire.NewPinLaterScanJobsRequest()
	r.QueueName, r.JobState = mail, state
	return r
}

func (f *fixture) scan(r *wire.PinLaterScanJobsRequest) (descriptors []string) {
	f.Helper()
	found, err := f.client.ScanJobs(f.ctx, test, r)
	require.NoError(f, err)
	for _, j := range found.ScannedJobs {
		assert.Nil(f, j.Body)
		descriptors = append(descriptors, j.JobDescriptor)
	}
	return descriptors
}
