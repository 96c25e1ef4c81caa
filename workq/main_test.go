package workq_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/workq"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(m)
}

// fixture is a process with a group of queues on a store, and a Server.
type fixture struct {
	*testing.T
	driver     driver.Driver
	group      amboy.QueueGroup
	dispatcher *outside.Dispatcher
	server     *workq.Server
	dial       func() (net.Conn, error)
	close      func()
}

// start starts a process on a store.
func start(t *testing.T, store driver.Driver, opts workq.Options, l net.Listener, dial func() (net.Conn, error)) *fixture {
	t.Helper()
	return startWith(t, queue.DriverQueueOptions{Driver: store, CloseDriver: true}, opts, l, dial)
}

func startWith(t *testing.T, queues queue.DriverQueueOptions, opts workq.Options, l net.Listener, dial func() (net.Conn, error)) *fixture {
	t.Helper()
	g := outsidetest.StartGroup(t, queues, outside.Options{})
	f := &fixture{T: t, driver: queues.Driver, group: g.Queues, dispatcher: g.Dispatcher, dial: dial}
	var err error
	f.server, err = workq.New(f.group, f.dispatcher, opts)
	require.NoError(t, err)
	stop := outsidetest.Serve(t, f.server, l)
	f.close = func() {
		stop()
		g.Close()
	}
	return f
}

// inFakeTime runs a test on a store in memory, in fake time, with pipes for connections.
func inFakeTime(t *testing.T, opts workq.Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		f := start(t, outsidetest.Memory(t), opts, l, l.Dial)
		test(f)
		f.close()
	})
}

// overTCP starts a process on a store, with TCP connections.
func overTCP(t *testing.T, store driver.Driver, opts workq.Options) *fixture {
	t.Helper()
	l := outsidetest.Listen(t)
	return start(t, store, opts, l, dialing(l))
}

// dialing returns a function that opens connections to a listener.
func dialing(l net.Listener) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		return net.Dial("tcp", l.Addr().String()) //nolint:noctx // It is local.
	}
}

// onEachStore runs a test on each store, with TCP connections.
func onEachStore(t *testing.T, test func(*fixture)) {
	t.Helper()
	onEachStoreWith(t, workq.Options{}, test)
}

func onEachStoreWith(t *testing.T, opts workq.Options, test func(*fixture)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(overTCP(t, outsidetest.Memory(t), opts))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(overTCP(t, outsidetest.SQLite(t, filepath.Join(t.TempDir(), "jobs.db")), opts))
	})
}

// client writes the bytes of the protocol: a client of workq can't be had.
type client struct {
	*testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (f *fixture) connect() *client {
	f.Helper()
	conn, err := f.dial()
	require.NoError(f, err)
	f.Cleanup(func() { _ = conn.Close() })
	return &client{T: f.T, conn: conn, in: bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.Helper()
	_, err := io.WriteString(c.conn, text)
	require.NoError(c, err)
}

// expect reads an answer, byte for byte.
func (c *client) expect(want string) {
	c.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	if string(got[:n]) != want {
		assert.Failf(c, "unexpected answer", "want %.200q\n got %.200q (%v)", want, got[:n], err)
		c.FailNow()
	}
	assert.Zero(c, c.in.Buffered(), "there is more: %q", c.more())
}

func (c *client) more() []byte {
	rest, _ := c.in.Peek(c.in.Buffered())
	return rest
}

// do sends a command and reads its answer.
func (c *client) do(command, want string) {
	c.Helper()
	c.send(command)
	c.expect(want)
}

// line reads a line.
func (c *client) line() string {
	c.Helper()
	text, err := c.in.ReadString('\n')
	require.NoError(c, err)
	return strings.TrimSuffix(text, "\r\n")
}

// ends expects the connection to be closed without another byte.
func (c *client) ends() {
	c.Helper()
	rest, err := io.ReadAll(c.in)
	assert.Empty(c, rest)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) && !strings.Contains(err.Error(), "reset") {
		require.NoError(c, err)
	}
}

// goes expects the connection to go on.
func (c *client) goes() {
	c.Helper()
	c.do("nonsense\r\n", unknown)
}

const (
	ok       = "+OK\r\n"
	missing  = "-NOT-FOUND\r\n"
	timeout  = "-TIMEOUT\r\n"
	unknown  = "-CLIENT-ERROR Unknown command\r\n"
	badArgs  = "-CLIENT-ERROR Invalid command args\r\n"
	badFlags = "-CLIENT-ERROR Invalid command flags\r\n"
	badSize  = "-CLIENT-ERROR Invalid payload size\r\n"
)

// id returns an ID of version 4.
func id(n int) string { return fmt.Sprintf("6ba7b810-9dad-41d1-80b4-%012x", n) }

// add is the command that puts a job, with a payload and flags.
func add(n int, name string, ttr, ttl int, payload string, flags ...string) string {
	return fmt.Sprintf("add %s %s %d %d %d%s\r\n%s\r\n", id(n), name, ttr, ttl, len(payload), joined(flags), payload)
}

func joined(flags []string) string {
	text := ""
	for _, flag := range flags {
		text += " " + flag
	}
	return text
}

// scheduled is the command that puts a job for a time. Its time to run is a second.
func scheduled(n int, name string, ttl int, at time.Time, payload string, flags ...string) string {
	return fmt.Sprintf("schedule %s %s 1000 %d %s %d%s\r\n%s\r\n", id(n), name, ttl, at.UTC().Format("2006-01-02T15:04:05Z"), len(payload), joined(flags), payload)
}

func run(n int, name string, ttr, wait int, payload string) string {
	return fmt.Sprintf("run %s %s %d %d %d\r\n%s\r\n", id(n), name, ttr, wait, len(payload), payload)
}

func complete(n int, result string) string {
	return fmt.Sprintf("complete %s %d\r\n%s\r\n", id(n), len(result), result)
}

func fail(n int, result string) string {
	return fmt.Sprintf("fail %s %d\r\n%s\r\n", id(n), len(result), result)
}

func result(n, wait int) string { return fmt.Sprintf("result %s %d\r\n", id(n), wait) }

// job is the answer that gives a job.
func job(n int, name string, ttr int, payload string) string {
	return fmt.Sprintf("+OK 1\r\n%s %s %d %d\r\n%s\r\n", id(n), name, ttr, len(payload), payload)
}

// ended is the answer with a result.
func ended(n, success int, result string) string {
	return fmt.Sprintf("+OK 1\r\n%s %d %d\r\n%s\r\n", id(n), success, len(result), result)
}

// inspected returns the entry of a job by its keys, and the keys in order.
func (c *client) inspected(n int) (values map[string]string, keys []string) {
	c.Helper()
	c.send("inspect job " + id(n) + "\r\n")
	require.Equal(c, "+OK 1", c.line())
	return c.entry()
}

// entry reads an entry of inspect. It reads the payload by its size.
func (c *client) entry() (values map[string]string, keys []string) {
	c.Helper()
	title, count, _ := strings.Cut(c.line(), " ")
	values = map[string]string{"title": title}
	var k, size int
	_, err := fmt.Sscan(count, &k)
	require.NoError(c, err)
	for range k {
		key, err := c.in.ReadString(' ')
		require.NoError(c, err)
		key = strings.TrimSuffix(key, " ")
		keys = append(keys, key)
		if key == "payload" {
			payload := make([]byte, size+2)
			_, err = io.ReadFull(c.in, payload)
			require.NoError(c, err)
			values[key] = string(payload[:size])
			continue
		}
		values[key] = c.line()
		if key == "payload-size" {
			_, err = fmt.Sscan(values[key], &size)
			require.NoError(c, err)
		}
	}
	return values, keys
}

// evicted returns the number of evicted jobs.
func (c *client) evicted() string {
	c.Helper()
	c.send("inspect server\r\n")
	require.Equal(c, "+OK 1", c.line())
	values, _ := c.entry()
	return values["evicted-jobs"]
}
