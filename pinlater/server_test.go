package pinlater_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

func TestBadOptionsAreRefusedByName(t *testing.T) {
	for field, opts := range map[string]pinlater.Options{
		"MaxConnections":          {MaxConnections: -1},
		"MaxConnectionsPerClient": {MaxConnectionsPerClient: -1},
		"MaxFrame":                {MaxFrame: 1},
		"MaxBuffered":             {MaxBuffered: 1},
		"MaxBody":                 {MaxBody: -1},
		"IdleTimeout":             {IdleTimeout: -1},
		"ReadTimeout":             {ReadTimeout: -1},
		"WriteTimeout":            {WriteTimeout: -1},
		"CallTimeout":             {CallTimeout: -1},
		"QueuePrefix":             {QueuePrefix: "tenant"},
		"PriorityLevels":          {PriorityLevels: 128},
		"ClaimTimeout":            {ClaimTimeout: time.Millisecond},
		"KeepSucceeded":           {KeepSucceeded: -1},
		"KeepFailed":              {KeepFailed: -1},
		"AdminPasswordHash":       {AdminPasswordHash: "secret"},
		"ReloadInterval":          {ReloadInterval: -1},
		"MonitorInterval":         {MonitorInterval: -1},
	} {
		require.ErrorContains(t, opts.Validate(), field+" ")
	}
}

func TestAServerListensOnLoopbackOnlyUnlessToldOtherwise(t *testing.T) {
	f := overTCP(t, noOptions)
	require.ErrorIs(t, f.server.ListenAndServe(t.Context(), "0.0.0.0:0"), pinlater.ErrNotLoopback)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
	require.NoError(t, err)
	remote := newFixtureOn(t, stores["memory"](t), pinlater.Options{AllowRemote: true}, listener)
	remote.createQueue(mail)
}

func TestAServerNeedsQueuesInAStore(t *testing.T) {
	f := overTCP(t, noOptions)
	_, err := pinlater.New(f.group, nil, noOptions)
	require.ErrorIs(t, err, outside.ErrUnsupported)
	_, err = pinlater.New(nil, f.dispatcher, noOptions)
	require.ErrorIs(t, err, outside.ErrUnsupported)
	_, err = pinlater.New(f.group, f.dispatcher, pinlater.Options{MaxFrame: 1})
	require.ErrorContains(t, err, "MaxFrame")
}

// closes requires the server to close a connection without an answer.
func closes(t testing.TB, conn net.Conn) {
	t.Helper()
	answer, _ := io.ReadAll(conn) // a reset connection is closed too
	assert.Empty(t, answer)
}

func TestBadFramesCloseTheirConnectionOnly(t *testing.T) {
	f := overTCP(t, pinlater.Options{MaxFrame: 1 << 10})
	for name, frame := range map[string][]byte{
		"too large":   {0, 0, 4, 1, 0x80},
		"huge":        {0xff, 0xff, 0xff, 0xff},
		"empty":       {0, 0, 0, 0},
		"no message":  framed([]byte("GET / HTTP/1.1\r\n\r\n")),
		"short":       framed([]byte{0x80, 1}),
		"bad version": framed(unhex(t, "80020001 00000001 61 00000000 00")),
	} {
		t.Run(name, func(t *testing.T) {
			conn := f.dial()
			_, err := conn.Write(frame)
			require.NoError(t, err)
			closes(t, conn)
			f.createQueue(mail)
		})
	}
}

func TestRequestsThatDoNotDecodeGetType7AndTheConnectionLivesOn(t *testing.T) {
	f := overTCP(t, noOptions)
	conn := f.dial()
	call := "80010001 0000000b 656e71756575654a6f6273 00000001" // enqueueJobs
	fields := "0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 0f0002 0c "
	for name, args := range map[string]string{
		"cut":               "0c0001 0b00",
		"text too long":     "0c0001 0b0001 7fffffff 74",
		"negative length":   "0c0001 0b0001 ffffffff 74",
		"list too long":     fields + "7fffffff",
		"list of nothing":   fields + "00000010 00",
		"negative list":     fields + "ffffffff",
		"list of too many":  fields + "000186a1" + strings.Repeat("00", 1<<20),
		"too deep":          strings.Repeat("0c0009", 100),
		"unknown type":      "ff0009 00",
		"list of no type":   "0f0009 00 0000ffff 00",
		"map of no type":    "0d0009 0000 0000ffff 00",
		"wrong enum":        "", // below
		"struct in a list ": "0f0009 0c 7fffffff",
	} {
		request := unhex(t, call+args)
		if name == "wrong enum" {
			request = unhex(t, "80010001 0000000b 6765744a6f62436f756e74 00000001 0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 080002 00000009 00 00")
		}
		reply := exchange(t, conn, framed(request))
		assert.Equal(t, unhex(t, "80010003"), reply[4:8], name)
		assert.Equal(t, unhex(t, "080002 00000007 00"), reply[len(reply)-8:], name)
	}
	reply := exchange(t, conn, framed(unhex(t, "80010002 00000001 61 00000005 00")))
	assert.Equal(t, unhex(t, "080002 00000002 00"), reply[len(reply)-8:], "a reply instead of a call")
	assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, conn, framed(unhex(t, getQueueNames))))
}

func TestARequestInPiecesIsAnswered(t *testing.T) {
	f := overTCP(t, noOptions)
	conn := f.dial()
	request := framed(unhex(t, getQueueNames))
	for i := range request[:len(request)-1] {
		_, err := conn.Write(request[i : i+1])
		require.NoError(t, err)
	}
	assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, conn, request[len(request)-1:]))
}

func TestConnectionsAreLimited(t *testing.T) {
	inFakeTime(t, pinlater.Options{MaxConnections: 3, MaxConnectionsPerClient: 1}, func(f *fixture) { // the client has one
		l := outsidetest.NewPipes()
		stop := outsidetest.Serve(t, f.server, l)
		call := framed(unhex(t, getQueueNames))
		remote := func() net.Conn {
			conn, err := l.DialFrom(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
			require.NoError(t, err)
			return conn
		}
		assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, remote(), call))
		closes(t, remote())
		assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, f.dial(), call))
		closes(t, f.dial())
		stop()
	})
}

func TestIdleAndSlowClientsAreDropped(t *testing.T) {
	opts := pinlater.Options{IdleTimeout: time.Minute, ReadTimeout: time.Second, WriteTimeout: time.Second}
	inFakeTime(t, opts, func(f *fixture) {
		dropsAfter := func(limit time.Duration, conn net.Conn) {
			f.Helper()
			begin := time.Now()
			closes(f, conn)
			assert.Equal(f, limit, time.Since(begin))
		}
		dropsAfter(time.Minute, f.dial())

		slow := f.dial()
		_, err := slow.Write([]byte{0})
		require.NoError(f, err)
		dropsAfter(time.Second, slow)

		half := f.dial()
		_, err = half.Write([]byte{0, 0, 0, 9, 0x80, 1})
		require.NoError(f, err)
		dropsAfter(time.Second, half)

		deaf := f.dial()
		_, err = deaf.Write(framed(unhex(t, getQueueNames)))
		require.NoError(f, err)
		time.Sleep(2 * time.Second) // it does not read
		_, err = deaf.Write([]byte{0})
		require.ErrorIs(f, err, io.ErrClosedPipe)
		f.client = f.connect()
		f.createQueue("more")
	})
}

func TestClientsThatAnnounceMuchAndSendNothingHoldUpNoSmallRequests(t *testing.T) {
	inFakeTime(t, pinlater.Options{MaxFrame: 1 << 20, MaxBuffered: 1 << 20}, func(f *fixture) {
		for range 10 {
			conn := f.dial()
			_, err := conn.Write([]byte{0, 0x10, 0, 0, 0x80})
			require.NoError(f, err)
		}
		synctest.Wait()
		f.put("small")
		f.sleep(time.Minute) // they are dropped
		f.put(strings.Repeat("x", 1<<19))
	})
}

func TestAReplyThatIsTooLargeIsAnException(t *testing.T) {
	f := overTCP(t, pinlater.Options{MaxFrame: 64 << 10})
	var all []string
	for range 3 {
		all = append(all, f.put(strings.Repeat("x", 30<<10)))
	}
	r := wire.NewPinLaterLookupJobRequest()
	r.JobDescriptors, r.IncludeBody = all, true
	_, err := f.client.LookupJobs(f.ctx, test, r)
	f.hasCode(err, wire.ErrorCode_UNKNOWN)
	assert.Len(t, f.lookup(all[0]), 1)
}

func TestABodyThatIsTooLargeIsRefused(t *testing.T) {
	f := overTCP(t, pinlater.Options{MaxBody: 10})
	_, err := f.tryEnqueue(mail, newJob("1234567890"), newJob("12345678901"))
	f.hasCode(err, wire.ErrorCode_ENQUEUE_REJECTED)
	d := f.put("1234567890")
	f.dequeue(1)
	r := checkpointOf(d)
	body := "12345678901"
	r.NewBody_ = &body
	f.hasCode(f.client.CheckpointJobs(f.ctx, test, &wire.PinLaterCheckpointJobsRequest{QueueName: mail, Requests: []*wire.PinLaterCheckpointJobRequest{r}}), wire.ErrorCode_ENQUEUE_REJECTED)
}

func TestCloseAnswersTheCallsThatAreBeingServed(t *testing.T) {
	f := overTCP(t, noOptions)
	conns := make([]net.Conn, 10)
	for i := range conns {
		conns[i] = f.dial()
		_, err := conns[i].Write(framed(unhex(t, getQueueNames)))
		require.NoError(t, err)
	}
	f.close()
	for _, conn := range conns {
		answer, _ := io.ReadAll(conn) // a reset connection is closed too
		if len(answer) > 0 {          // it was read before Close
			assert.Equal(t, framed(unhex(t, mailQueueNames)), answer)
		}
	}
	require.NoError(t, f.server.Close(t.Context()))
	require.ErrorIs(t, f.server.Serve(outsidetest.NewPipes()), pinlater.ErrClosed)
}

func TestCloseEndsWithItsContext(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		conn := f.dial()
		_, err := conn.Write(framed(unhex(t, getQueueNames)))
		require.NoError(f, err)
		synctest.Wait() // the server writes the answer, which is not read
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		begin := time.Now()
		err = f.server.Close(ctx)
		assert.Equal(f, time.Second, time.Since(begin))
		if err != nil { // unless the connection was closed fast enough
			require.ErrorIs(f, err, context.DeadlineExceeded)
		}
	})
}

func TestServersWithPrefixesShareNothing(t *testing.T) {
	store := stores["memory"](t)
	all := newFixture(t, store, noOptions)
	one := newServerOn(t, all, pinlater.Options{QueuePrefix: "one."})
	two := newServerOn(t, all, pinlater.Options{QueuePrefix: "two."})
	all.createQueue(mail)
	one.createQueue(mail)
	two.createQueue("other")
	d := one.put("a")
	assert.Empty(t, all.dequeue(1).Jobs)
	assert.Empty(t, all.lookup(d))
	_, err := two.client.DequeueJobs(t.Context(), test, dequeueRequest(1))
	two.hasCode(err, wire.ErrorCode_QUEUE_NOT_FOUND)
	for f, want := range map[*fixture]string{all: mail, one: mail, two: "other"} {
		names, err := f.client.GetQueueNames(t.Context(), test)
		require.NoError(t, err)
		assert.Equal(t, []string{want}, names)
	}
	assert.Equal(t, "a", one.dequeueOne())
}

// newServerOn returns another server on the queues of a fixture.
func newServerOn(t *testing.T, of *fixture, opts pinlater.Options) *fixture {
	t.Helper()
	f := &fixture{TB: t, ctx: of.ctx, driver: of.driver, group: of.group, dispatcher: of.dispatcher, listener: outsidetest.Listen(t)}
	f.serve(opts)
	return f
}

func TestServersOnAStoreDoNotShareLocalIDs(t *testing.T) {
	first := overTCP(t, noOptions)
	second := newServerOn(t, first, noOptions)
	known := map[string]bool{}
	for range 3 {
		for _, f := range []*fixture{first, second} {
			var jobs []*wire.PinLaterJob
			for range 700 {
				jobs = append(jobs, newJob("a"))
			}
			for _, d := range f.enqueue(jobs...) {
				assert.False(t, known[d], d)
				known[d] = true
			}
		}
	}
}

func TestAttackAJobWhoseIDIsNoLocalIDIsLookedUp(t *testing.T) {
	f := overTCP(t, noOptions)
	q, err := f.group.Get(f.ctx, mail)
	require.NoError(t, err)
	for _, id := range []string{"pinlater--5", "other", "pinlater-0", "pinlater-007"} {
		j, err := job.NewOutside(amboy.JobType{Name: "pinlater", Version: 1}, job.Payload{Bytes: []byte("a")}, job.ID(id), job.Priority(-1))
		require.NoError(t, err)
		require.NoError(t, q.Put(f.ctx, j))
	}
	assert.Empty(t, f.lookup("mail:s1:p1:-5", "mail:s1:p1:0", "mail:s1:p1:007"))
	assert.Empty(t, f.scan(scanRequest(pending)))
	assert.Equal(t, 4, f.count(pending))
	assert.Empty(t, f.dequeue(10).Jobs)
	assert.Equal(t, 4, f.count(gaveUp))
}

func TestAttackASourceHasBytesThatNotAllStoresKeep(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		d := f.put("a")
		source := from("a\x00\xff/b\n")
		r, err := f.client.DequeueJobs(f.ctx, source, dequeueRequest(1))
		require.NoError(f, err)
		assert.Len(f, r.Jobs, 1)
		text := "\x00\xff"
		c := checkpointOf(d)
		c.PrependCustomStatus = &text
		f.checkpoint(source.Source, c)
		assert.Equal(f, "\uFFFD\uFFFD", f.info(d).CustomStatus)
		assert.Contains(f, f.info(d).GetClaimDescriptor(), "a\uFFFD\uFFFD/b\n")
		_, err = f.client.DequeueJobs(f.ctx, from(strings.Repeat("x", 200)), dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
	})
}

func TestAClaimOfAServerThatIsGoneTimesOut(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		f.put("a")
		f.dequeue(1)
		require.NoError(f, f.server.Close(f.ctx))
		require.NoError(f, f.dispatcher.Close(f.ctx))
		time.Sleep(time.Minute)
		d, err := outside.NewGroup(f.group, outside.Options{})
		require.NoError(f, err)
		s, err := pinlater.New(f.group, d, noOptions)
		require.NoError(f, err)
		time.Sleep(12 * time.Minute)
		r, err := f.driver.Get(f.ctx, mail, "pinlater-1")
		require.NoError(f, err)
		assert.Equal(f, 1, r.RetryInfo.CurrentAttempt)
		require.NoError(f, s.Close(f.ctx))
		require.NoError(f, d.Close(f.ctx))
	})
}
