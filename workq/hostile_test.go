package workq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	jobs "github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/workq"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, opts := range []workq.Options{
		{MaxConnections: -1},
		{MaxConnectionsPerClient: -1},
		{MaxNames: -1},
		{MaxBuffered: 1},
		{MaxBuffered: -1},
		{IdleTimeout: -1},
		{ReadTimeout: -1},
		{WriteTimeout: -1},
		{Prefix: "\xff:"},
		{Prefix: "\x00:"},
		{Prefix: strings.Repeat("p", 1000) + ":"},
	} {
		require.Error(t, opts.Validate(), "%+v", opts)
	}
	f := overTCP(t, outsidetest.Memory(t), noOptions)
	_, err := workq.New(f.group, nil, noOptions)
	require.Error(t, err)
	_, err = workq.New(nil, f.dispatcher, noOptions)
	require.ErrorIs(t, err, outside.ErrUnsupported)
}

func TestListenersAndConnectionsAreLimited(t *testing.T) {
	inFakeTime(t, workq.Options{MaxConnections: 3, MaxConnectionsPerClient: 1}, func(f *fixture) {
		l := outsidetest.NewPipes()
		stop := outsidetest.Serve(t, f.server, l)
		remote := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
		f.dial = func() (net.Conn, error) { return l.DialFrom(remote) }
		f.connect().goes()
		f.connect().ends()
		f.dial = l.Dial
		f.connect().goes()
		f.connect().goes()
		f.connect().ends()
		stop()
	})
	f := overTCP(t, outsidetest.Memory(t), noOptions)
	l, err := net.Listen("tcp", ":0") //nolint:gosec,noctx // That is the test.
	require.NoError(t, err)
	require.ErrorIs(t, f.server.Serve(l), workq.ErrNotLoopback)
}

func TestSlowAndIdleClientsAreDropped(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		for name, test := range map[string]struct {
			input string
			after time.Duration
		}{
			"idle":         {"", time.Hour},
			"half a line":  {"lease q", time.Minute},
			"half a block": {fmt.Sprintf("add %s q 1000 1000 100\r\nabc", id(1)), time.Minute},
		} {
			c, begin := f.connect(), time.Now()
			if test.input != "" {
				c.send(test.input)
			}
			c.ends()
			assert.Equal(t, test.after, time.Since(begin), name)
		}
		// A client that sends a byte now and then.
		c := f.connect()
		for range 6 {
			c.send("x")
			time.Sleep(10 * time.Second)
		}
		c.ends()
		// A client that does not read its answer.
		c = f.connect()
		c.send("nonsense\r\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		c.ends()
	})
}

func TestLargeBlocksWaitForEachOther(t *testing.T) {
	inFakeTime(t, workq.Options{MaxBuffered: 4 << 20}, func(f *fixture) {
		for n := range 4 { // they take all of it, and send nothing more
			f.connect().send(fmt.Sprintf("add %s q 1000 6000000 1048576\r\n", id(n)))
		}
		time.Sleep(10 * time.Second)
		c, begin := f.connect(), time.Now()
		c.do(add(9, "q", 1000, 6000000, "small"), ok)
		assert.Zero(t, time.Since(begin))
		c.do(add(10, "q", 1000, 6000000, strings.Repeat("x", 1<<20)), ok)
		assert.Equal(t, 50*time.Second, time.Since(begin), "the others were dropped")
		// The payload of a run is not held while the run waits.
		for n := range 5 {
			f.connect().send(run(20+n, "r", 1000, 6000000, strings.Repeat("x", 1<<20)))
		}
		c.do(add(11, "q", 1000, 6000000, strings.Repeat("x", 1<<20)), ok)
	})
}

func TestAnnouncedBlocksTakeNoMemory(t *testing.T) {
	f := overTCP(t, outsidetest.Memory(t), noOptions)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range 200 {
		f.connect().send(fmt.Sprintf("add %s q 1000 1000 1048576\r\n", id(n)))
	}
	f.connect().goes()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(200*(64<<10))) //nolint:gosec // They fit.
}

func TestMalformedInput(t *testing.T) {
	hole := "delete " + id(1) + "\r\n" // a payload that would be read as a command
	for name, test := range map[string]struct {
		input, want string
		lost        bool
	}{
		"wrong number of words skips nothing":    {"add x\r\n" + hole, badArgs + ok, false},
		"block of a command with bad flags":      {fmt.Sprintf("add %s q 1 1 %d -a=\r\n%s\r\n", id(2), len(hole), hole), badFlags, false},
		"block of a command with too many flags": {fmt.Sprintf("complete %s %d -a=1\r\n%s\r\n", id(1), len(hole), hole), badArgs, false},
		"block of a command with a bad field":    {fmt.Sprintf("add x q 1 1 %d\r\n%s\r\n", len(hole), hole), "-CLIENT-ERROR Invalid ID\r\n", false},
		"size that is no number":                 {"add " + id(2) + " q 1 1 *\r\n" + hole, badSize, true},
		"size below zero":                        {"fail " + id(2) + " -8\r\n" + hole, "-CLIENT-ERROR Invalid result size\r\n", true},
		"size with bad flags":                    {"add " + id(2) + " q 1 1 * -a=\r\n" + hole, badFlags, true},
		"block longer than its size":             {"add " + id(2) + " q 1 1 2\r\nabcd\r\n" + hole, badSize, true},
		"block closed by LF":                     {"add " + id(2) + " q 1 1 2\r\nab\nX" + hole, badSize, true},
		"empty line":                             {"\r\n", unknown, false},
		"CR inside a line":                       {"inspect\rserver\r\n", unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, noOptions, func(f *fixture) {
				c := f.connect()
				c.do(add(1, "q", 1000, 60000, ""), ok)
				go func() { _, _ = c.conn.Write([]byte(test.input)) }() // the server may not read all of it
				c.expect(test.want)
				if test.lost {
					c.ends()
					f.connect().send(result(1, 0)) // the server is there
					return
				}
				c.goes()
			})
		})
	}
	t.Run("end of input inside a block", func(t *testing.T) {
		c := overTCP(t, outsidetest.Memory(t), noOptions).connect()
		c.send("add " + id(2) + " q 1 1 20\r\nabc")
		require.NoError(t, c.conn.(*net.TCPConn).CloseWrite())
		c.expect(badSize)
		c.ends()
	})
}

func TestBrowserCanNotSendCommands(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 1000, 60000, ""), ok)
		for _, request := range []string{"POST / HTTP/1.1\r\n", "Host: localhost\r\n", "delete /delete HTTP/1.0\r\n"} {
			browser := f.connect()
			go func() { _, _ = io.WriteString(browser.conn, request+"\r\ndelete "+id(1)+"\r\n") }() // the server hangs up
			browser.ends()
		}
		c.do(result(1, 1), timeout) // it is still there
	})
}

func TestOrderOfChecks(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		version1 := strings.Replace(id(1), "-41", "-11", 1)
		// From each line to the next, the first mistake is put right.
		for _, step := range []struct{ line, want string }{
			{"add x a/b x x 0 -max-attempts=x -max-fails=x -priority=", "command flags"},
			{"add x a/b x 0 -max-attempts=x -max-fails=x -priority=x", "command args"},
			{"add x a/b x x 0 -max-attempts=x -max-fails=x -priority=x -more=1", "command args"},
			{"add x a/b x x 0 -max-attempts=x -max-fails=x -priority=x", "ID"},
			{"add " + version1 + " a/b x x 0 -max-attempts=x -max-fails=x -priority=x", "TTR"},
			{"add " + version1 + " a/b 0 x 0 -max-attempts=x -max-fails=x -priority=x", "TTL"},
			{"add " + version1 + " a/b 0 0 0 -max-attempts=x -max-fails=x -priority=x", "Max Attempts"},
			{"add " + version1 + " a/b 0 0 0 -max-attempts=1 -max-fails=x -priority=x", "Max Fails"},
			{"add " + version1 + " a/b 0 0 0 -max-attempts=1 -max-fails=1 -priority=x", "Priority"},
			{"add " + version1 + " a/b 0 0 0", "ID"},
			{"add " + id(1) + " a/b 0 0 0", "Name"},
			{"add " + id(1) + " a 0 0 0", "TTR"},
			{"add " + id(1) + " a 1 0 0", "TTL"},
			{"schedule " + version1 + " a/b 0 0 x 0 -priority=x", "Time"},
			{"schedule " + id(1) + " a 1 1 1990-01-01T00:00:00Z 0", "Time"},
			{"run " + version1 + " a/b 0 x 0 -priority=x", "Priority"},
			{"run " + version1 + " a/b 0 x 0", "wait timeout"},
			{"run " + version1 + " a/b 0 0 0", "ID"},
		} {
			input := step.line + "\r\n"
			if _, has, _ := workq.BlockOf(step.line); has {
				input += "\r\n"
			}
			c.do(input, "-CLIENT-ERROR Invalid "+step.want+"\r\n")
		}
		c.do("lease a/b x\r\n", "-CLIENT-ERROR Invalid wait timeout\r\n")
		c.do("result x x\r\n", "-CLIENT-ERROR Invalid ID\r\n")
	})
}

func TestCloseAnswersWaitingCommands(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		idle, leasing, running := f.connect(), f.connect(), f.connect()
		leasing.send("lease q 86400000\r\n")
		running.send(run(1, "r", 1000, 86400000, ""))
		time.Sleep(time.Minute)
		closed := make(chan error, 1)
		go func() { closed <- f.server.Close(f.Context()) }()
		leasing.expect(timeout)
		running.expect(timeout)
		for _, c := range []*client{idle, leasing, running} {
			c.ends()
		}
		require.NoError(t, <-closed)
		require.ErrorIs(t, f.server.Serve(outsidetest.NewPipes()), workq.ErrClosed)
	})
}

func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.send("nonsense\r\n") // the client does not read
		synctest.Wait()
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, f.server.Close(ctx), "deadline")
		synctest.Wait()
		c.ends()
	})
}

func TestServersWithDifferentPrefixesShareNothing(t *testing.T) {
	inFakeTime(t, workq.Options{Prefix: "ann:"}, func(f *fixture) {
		l := outsidetest.NewPipes()
		other, err := workq.New(f.group, f.dispatcher, workq.Options{Prefix: "bob:"})
		require.NoError(t, err)
		defer outsidetest.Serve(t, other, l)()
		ann := f.connect()
		f.dial = l.Dial
		bob := f.connect()
		ann.do(add(1, "q", 1000, 60000, "ann"), ok)
		bob.do("lease q 0\r\n", timeout)
		bob.do("lease ann:q 0\r\n", "-CLIENT-ERROR Invalid Name\r\n")
		bob.do(result(1, 0), missing)
		bob.do(complete(1, ""), missing)
		bob.do("delete "+id(1)+"\r\n", missing)
		bob.do("inspect job "+id(1)+"\r\n", missing)
		bob.do("inspect jobs ann:q 0 10\r\n", "-CLIENT-ERROR Invalid Name\r\n")
		bob.do(add(1, "q", 1000, 60000, "bob"), ok)
		ann.do("lease q 0\r\n", job(1, "q", 1000, "ann"))
		bob.do("lease q 0\r\n", job(1, "q", 1000, "bob"))
	})
}

// The clients of the prefix "ann" reached the queue q of the prefix "anna" as aq, and those of a server without a prefix
// reached that of "ann." as ann.q.
func TestAServerReachedTheQueuesOfOtherPrefixes(t *testing.T) {
	for _, prefix := range []string{"ann", "ann.", "ann-", "ann_", "ann2", "ann:bob"} {
		opts := workq.Options{Prefix: prefix}
		require.ErrorContains(t, opts.Validate(), "Prefix must", prefix)
	}
	inFakeTime(t, noOptions, func(f *fixture) {
		l := outsidetest.NewPipes()
		ann, err := workq.New(f.group, f.dispatcher, workq.Options{Prefix: "ann:"})
		require.NoError(t, err)
		defer outsidetest.Serve(t, ann, l)()
		all := f.connect()
		f.dial = l.Dial
		own := f.connect()
		own.do(add(1, "q", 1000, 60000, "ann"), ok)
		for _, name := range []string{"ann:q", ":q"} {
			all.do("lease "+name+" 0\r\n", "-CLIENT-ERROR Invalid Name\r\n")
		}
		all.do(result(1, 0), missing)
		all.do("inspect queues 0 10\r\n", "+OK 0\r\n")
		own.do("lease q 0\r\n", job(1, "q", 1000, "ann"))
	})
}

// A server without a prefix, when it started, took over the times of the jobs of all prefixes, and removed them.
func TestAServerRemovedTheJobsOfOtherPrefixes(t *testing.T) {
	inFakeTime(t, workq.Options{Prefix: "ann:"}, func(f *fixture) {
		f.connect().do(add(1, "q", 1000, 2000, "ann"), ok)
		require.NoError(t, f.server.Close(f.Context()))
		l := outsidetest.NewPipes()
		all, err := workq.New(f.group, f.dispatcher, noOptions)
		require.NoError(t, err)
		defer outsidetest.Serve(t, all, l)()
		f.dial = l.Dial
		time.Sleep(3 * time.Second)
		assert.Equal(t, "0", f.connect().evicted())
	})
}

func TestJobsThatOthersPutAreLeftAloneOrFail(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		q, err := f.group.Get(f.Context(), "q")
		require.NoError(t, err)
		for _, name := range []string{"another-type", workq.JobType} {
			j, err := jobs.NewOutside(amboy.JobType{Name: name, Version: 1}, jobs.Payload{}, jobs.ID(name))
			require.NoError(t, err)
			require.NoError(t, q.Put(f.Context(), j))
		}
		c.do("lease q 0\r\n", timeout)
		left, _ := q.Get(f.Context(), "another-type")
		assert.False(t, left.Status().Completed)
		failed, _ := q.Get(f.Context(), workq.JobType)
		assert.ErrorContains(t, failed.Error(), "not put by a client of workq")
	})
}

func TestOtherWorkersFinishJobsOfTheProtocol(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 1000, 60000, "x"), ok)
		leased, err := f.dispatcher.Lease(f.Context(), outside.LeaseRequest{Queues: []string{"q"}, Types: []string{workq.JobType}})
		require.NoError(t, err)
		require.Len(t, leased, 1)
		assert.Equal(t, "x", string(leased[0].Payload.Bytes))
		errs := f.dispatcher.Acknowledge(f.Context(), outside.Ack{Token: leased[0].Token, Complete: &outside.Complete{Result: json.RawMessage(`{"n":1}`)}})
		require.NoError(t, errs[0])
		c.do(result(1, 0), ended(1, 1, `{"n":1}`))
	})
}
