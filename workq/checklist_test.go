package workq_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/workq"
)

// The tests of this file are the checklist at the end of the description of the protocol,
// one for each line. The clients of workq can't be had here, so the bytes of the description
// take their place.

var noOptions = workq.Options{}

func TestLine01SmokeScenariosOfTheGoClient(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		a, b := f.connect(), f.connect()
		// run + lease + complete on two connections
		a.send(run(1, "ping", 60000, 60000, "ping"))
		b.do("lease ping 60000\r\n", job(1, "ping", 60000, "ping"))
		b.do(complete(1, "pong"), ok)
		a.expect(ended(1, 1, "pong"))
		// add + complete without a lease + result
		a.do(add(2, "q", 1000, 60000, "x"), ok)
		a.do(complete(2, "done"), ok)
		a.do(result(2, 0), ended(2, 1, "done"))
		// add + fail + result
		a.do(add(3, "q", 1000, 60000, "x"), ok)
		a.do(fail(3, "why"), ok)
		a.do(result(3, 1000), ended(3, 0, "why"))
		// add + delete
		a.do(add(4, "q", 1000, 60000, "x"), ok)
		a.do("delete "+id(4)+"\r\n", ok)
		// result of an unknown ID
		a.do(result(4, 1000), missing)
		a.do("lease q 0\r\n", timeout)
	})
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		time.Sleep(10 * time.Millisecond) // its time is in whole seconds
		c.do(scheduled(5, "later", 60000, time.Now().Add(2*time.Second), "x"), ok)
		c.do("lease later 100\r\n", timeout)
		c.do("lease later 1900\r\n", job(5, "later", 1000, "x"))
	})
	t.Run("1,000 jobs, a kill, a restart", testThousandJobsAKillAndARestart)
}

func TestLine02AddAndLeaseReturnThePayloadByteForByte(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		payloads := []string{"", strings.Repeat("x", workq.MaxBlock), "a\r\nb\r\n", "\r\n", string(every), strings.Repeat("\xff\r\n", workq.MaxBlock/3)}
		for i, payload := range payloads {
			c.do(add(i, "q", 60000, 60000, payload), ok)
			c.do("lease q 1000\r\n", job(i, "q", 60000, payload))
			c.do(complete(i, payload), ok)
			c.do(result(i, 0), ended(i, 1, payload))
			c.do(add(100+i, "failed", 60000, 60000, ""), ok)
			c.do(fail(100+i, payload), ok)
			c.do(result(100+i, 0), ended(100+i, 0, payload))
		}
	})
}

func TestLine03PayloadOfOneByteTooMuchIsRefused(t *testing.T) {
	f := overTCP(t, outsidetest.Memory(t), noOptions)
	c := f.connect()
	c.do(fmt.Sprintf("add %s q 1000 1000 1048577\r\n", id(1)), badSize)
	c.ends() // the block can't be skipped
}

func TestLine04FlagsStandAnywhere(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		for i, line := range []string{
			"add -priority=7 %s q 1000 60000 0\r\n\r\n",
			"add %s q -priority=7 1000 60000 0\r\n\r\n",
			"add %s q 1000 60000 0 -priority=7 -unknown=x\r\n\r\n",
			"add %s  q 1000  60000 0 -priority=7=8\r\n\r\n",
		} {
			c.do(fmt.Sprintf(line, id(i)), ok)
			values, _ := c.inspected(i)
			assert.Equal(f, "7", values["priority"], line)
		}
		for _, flags := range []string{"-priority=", "-=1", "-priority=1 -priority=2", "-="} {
			c.do(fmt.Sprintf("add %s q 1000 60000 2 %s\r\nhi\r\n", id(50), flags), badFlags)
		}
		for _, line := range []string{
			"lease q 0 -priority=1", "result " + id(0) + " 0 -a=1", "delete -a=1 " + id(0), "inspect -a=1 server",
		} {
			c.do(line+"\r\n", badArgs)
		}
		c.do(fmt.Sprintf("add %s q 1000 60000 0 -a=1 -b=1 -c=1 -d=1\r\n\r\n", id(60)), badArgs)
		c.do(fmt.Sprintf("run %s q 1000 60000 0 -a=1 -b=1\r\n\r\n", id(60)), badArgs)
		c.do("-priority=1 add\r\n", unknown)
		c.do("complete "+id(0)+" 0 -a=1\r\n\r\n", badArgs)
		c.goes()
	})
}

func TestLine05EveryRangeHoldsAtItsEdges(t *testing.T) {
	long := strings.Repeat("n", 255)
	fields := map[string]struct {
		good, bad []string
		want      string
		command   string // with %s for the ID and the value
	}{
		"name": {[]string{"a", long, "A.z_0-9"}, []string{long + "n", "a/b", "ä"}, "Invalid Name", "add %s %s 1000 60000 0\r\n\r\n"},
		"ttr":  {[]string{"1", "86400000"}, []string{"0", "86400001", "-1", "+1", "x", "99999999999999999999"}, "Invalid TTR", "add %s q %s 60000 0\r\n\r\n"},
		"ttl":  {[]string{"1", "2592000000"}, []string{"0", "2592000001", "-1", "x"}, "Invalid TTL", "add %s q 1000 %s 0\r\n\r\n"},
		"time": {
			[]string{"2000-01-01T00:00:01Z", "2000-01-01T00:00:01.5Z", "2090-01-01T00:00:00Z"},
			[]string{"2000-01-01T00:00:01+00:00", "2000-01-01", "1990-01-01T00:00:00Z", "x", "9999-01-01T00:00:00Z"},
			"Invalid Time", "schedule %s q 1000 2592000000 %s 0\r\n\r\n",
		},
		"priority": {
			[]string{"-2147483648", "2147483647", "0"},
			[]string{"-2147483649", "2147483648", "x", "1.5"},
			"Invalid Priority", "add %s q 1000 60000 0 -priority=%s\r\n\r\n",
		},
		"max-attempts": {[]string{"0", "255"}, []string{"256", "-1", "x"}, "Invalid Max Attempts", "add %s q 1000 60000 0 -max-attempts=%s\r\n\r\n"},
		"max-fails":    {[]string{"0", "255"}, []string{"256", "-1", "x"}, "Invalid Max Fails", "add %s q 1000 60000 0 -max-fails=%s\r\n\r\n"},
	}
	for field, test := range fields {
		t.Run(field, func(t *testing.T) {
			inFakeTime(t, noOptions, func(f *fixture) {
				c := f.connect()
				for i, value := range test.good {
					c.do(fmt.Sprintf(test.command, id(i), value), ok)
				}
				for i, value := range test.bad {
					c.do(fmt.Sprintf(test.command, id(100+i), value), "-CLIENT-ERROR "+test.want+"\r\n")
				}
				c.goes()
			})
		})
	}
	t.Run("others", func(t *testing.T) {
		inFakeTime(t, noOptions, func(f *fixture) {
			c := f.connect()
			c.do(add(1, "q", 1000, 60000, ""), ok)
			upper := strings.ToUpper(id(1))
			c.do("complete "+upper+" 0\r\n\r\n", ok)
			c.do("result "+upper+" 86400000\r\n", ended(1, 1, ""))
			for _, bad := range []string{"x", id(1) + "0", strings.ReplaceAll(id(1), "-", ""), "{" + id(1) + "}", "6ba7b810-9dad-41d1-80b4-00000000000g"} {
				c.do("result "+bad+" 0\r\n", "-CLIENT-ERROR Invalid ID\r\n")
				c.do("inspect job "+bad+"\r\n", "-CLIENT-ERROR Invalid ID\r\n")
			}
			version1, variant := strings.Replace(id(1), "-41", "-11", 1), strings.Replace(id(1), "-80", "-c0", 1)
			for _, other := range []string{version1, variant} {
				c.do("add "+other+" q 1000 60000 0\r\n\r\n", "-CLIENT-ERROR Invalid ID\r\n")
				c.do("delete "+other+"\r\n", "-CLIENT-ERROR Invalid ID\r\n")
				c.do("inspect job "+other+"\r\n", missing)
			}
			for _, bad := range []string{"86400001", "-1", "x"} {
				c.do("lease q "+bad+"\r\n", "-CLIENT-ERROR Invalid wait timeout\r\n")
				c.do("result "+id(1)+" "+bad+"\r\n", "-CLIENT-ERROR Invalid wait timeout\r\n")
				c.do("run "+id(2)+" q 1000 "+bad+" 0\r\n\r\n", "-CLIENT-ERROR Invalid wait timeout\r\n")
			}
			for i, priority := range []string{"-2147483648", "2147483647"} {
				runs := f.connect()
				runs.send("run " + id(10+i) + " run 1000 86400000 0 -priority=" + priority + "\r\n\r\n")
				c.do("lease run 86400000\r\n", job(10+i, "run", 1000, ""))
				c.do(complete(10+i, ""), ok)
				runs.expect(ended(10+i, 1, ""))
			}
			for _, bad := range []string{"-2147483649", "2147483648"} {
				c.do("run "+id(2)+" q 1000 0 0 -priority="+bad+"\r\n\r\n", "-CLIENT-ERROR Invalid Priority\r\n")
			}
			c.do("inspect scheduled-jobs q 0 1\r\n", "+OK 0\r\n")
			c.do("inspect scheduled-jobs q 0 100\r\n", "+OK 0\r\n")
			c.do("lease a/b 0\r\n", "-CLIENT-ERROR Invalid Name\r\n")
			c.do("inspect queues 4294967295 100\r\n", "+OK 0\r\n")
			c.do("inspect queues 4294967296 100\r\n", "-CLIENT-ERROR Invalid cursor offset\r\n")
			c.do("inspect queues 0 0\r\n", "-CLIENT-ERROR Invalid limit\r\n")
			c.do("inspect queues 0 101\r\n", "-CLIENT-ERROR Invalid limit\r\n")
			c.do("complete "+id(9)+" +2\r\nxx\r\n", missing)
			for _, size := range []string{"1048577", "-1", "*", "1.5"} {
				d := f.connect()
				d.do("complete "+id(9)+" "+size+"\r\n", badSize)
				d.ends()
				d = f.connect()
				d.do("fail "+id(9)+" "+size+"\r\n", "-CLIENT-ERROR Invalid result size\r\n")
				d.ends()
			}
		})
	})
}

func TestLine06EveryErrorLineIsProduced(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		// The lines about fields and sizes are produced by the test of line 5.
		for _, line := range []string{
			result(1, 0), complete(1, ""), fail(1, ""), "delete " + id(1) + "\r\n", "inspect job " + id(1) + "\r\n",
			"inspect queue q\r\n", "inspect jobs q 0 1\r\n", "inspect scheduled-jobs q 0 1\r\n",
		} {
			c.do(line, missing)
		}
		c.do("lease q 10\r\n", timeout)
		c.do(run(1, "q", 1000, 10, ""), timeout)
		for _, line := range []string{"\r\n", " add\r\n", "ADD\r\n", "quit\r\n", "inspect nothing\r\n", "add1 x\r\n"} {
			c.do(line, unknown)
		}
		for _, line := range []string{
			"add\r\n", "add 1 2 3 4\r\n", "add 1 2 3 4 5 6\r\n", "schedule 1 2 3 4 5\r\n", "run 1 2 3 4\r\n", "result 1\r\n", "result 1 2 3\r\n",
			"lease q1\r\n", "lease\r\n", "complete 1\r\n", "complete 1 2 3\r\n", "fail 1\r\n", "delete\r\n", "delete 1 2\r\n", "inspect\r\n",
			"inspect job\r\n", "inspect server 1\r\n", "inspect queues 1\r\n", "inspect jobs q 1\r\n",
		} {
			c.do(line, badArgs)
		}
		c.do(add(2, "q", 1000, 60000, ""), ok)
		c.do(result(2, 10), timeout)
		c.do(add(2, "q", 1000, 60000, ""), "-CLIENT-ERROR Duplicate job\r\n")
		c.do(add(2, "other", 1000, 60000, ""), "-CLIENT-ERROR Duplicate job\r\n")
		c.do(scheduled(2, "other", 60000, time.Now(), ""), "-CLIENT-ERROR Duplicate job\r\n")
		c.do(run(2, "q", 1000, 0, ""), "-CLIENT-ERROR Duplicate job\r\n")
		c.do(complete(2, ""), ok)
		c.do(complete(2, ""), "-CLIENT-ERROR Duplicate result\r\n")
		c.do(fail(2, ""), "-CLIENT-ERROR Duplicate result\r\n")
		c.do(add(2, "q", 1000, 60000, ""), "-CLIENT-ERROR Duplicate job\r\n")
		// A store that refuses everything.
		require.NoError(f, f.driver.Close(f.Context()))
		c.do(add(3, "q", 1000, 60000, ""), "-SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker\r\n")
	})
	t.Run("reads", func(t *testing.T) {
		f := overTCP(t, outsidetest.SQLite(t, t.TempDir()+"/jobs.db"), noOptions)
		require.NoError(f, f.driver.Close(f.Context()))
		f.connect().do("inspect job "+id(1)+"\r\n", "-SERVER-ERROR Queue out of sync\r\n")
	})
}

func TestLine07OrderOfLeasing(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		for i, priority := range []string{"0", "-10", "10", "0"} {
			c.do(add(i, "q", 60000, 60000, "", "-priority="+priority), ok)
		}
		for _, want := range []int{2, 0, 3, 1} {
			c.do("lease q 0\r\n", job(want, "q", 60000, ""))
		}
		c.do(add(10, "r", 100, 60000, ""), ok)
		c.do("lease r 0\r\n", job(10, "r", 100, ""))
		c.do(add(11, "r", 60000, 60000, ""), ok)
		require.Eventually(f, func() bool { values, _ := c.inspected(10); return values["state"] == "3" }, time.Minute, 5*time.Millisecond)
		c.do("lease r 0\r\n", job(10, "r", 100, ""))
		c.do(complete(10, ""), ok) // its time to run may be over again
		c.do("lease r 0\r\n", job(11, "r", 60000, ""))
	})
}

func TestLine08LeaseOfSeveralNames(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		first := map[string]int{}
		for i := 0; i < 900; i += 3 {
			names := map[string]bool{}
			for n, name := range []string{"a", "b", "c"} {
				c.do(add(i+n, name, 60000, 60000, ""), ok)
			}
			for turn := range 3 {
				c.send("lease a b c 100\r\n")
				require.Equal(f, "+OK 1", c.line())
				name := strings.Fields(c.line())[1]
				require.Empty(f, c.line())
				if turn == 0 {
					first[name]++
				}
				names[name] = true
			}
			require.Len(f, names, 3)
		}
		for _, name := range []string{"a", "b", "c"} {
			assert.GreaterOrEqual(f, first[name], 30, name)
		}
		c.do("lease a a b 0\r\n", timeout)
	})
}

func TestLine09LeaseTimesOutAndIsWoken(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		begin := time.Now()
		c.do("lease q 100\r\n", timeout)
		assert.InDelta(f, 110, time.Since(begin).Milliseconds(), 10)
		c.send("lease q 60000\r\n")
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		begin = time.Now()
		f.connect().do(add(1, "q", 1000, 60000, "x"), ok)
		c.expect(job(1, "q", 1000, "x"))
		assert.Less(f, time.Since(begin), 5*time.Millisecond)
	})
}

func TestLine10LeaseWithoutWaitGetsAReadyJob(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		for i := range 50 {
			c.do(add(i, "q", 60000, 60000, ""), ok)
			c.do("lease q 0\r\n", job(i, "q", 60000, ""))
			c.do("lease q 0\r\n", timeout)
		}
	})
}

func TestLine11JobIsLeasableAfterItsTTR(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 100, 60000, ""), ok)
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		values, _ := c.inspected(1)
		assert.Equal(f, []string{"4", "1"}, []string{values["state"], values["attempts"]})
		time.Sleep(95 * time.Millisecond)
		c.do("lease q 0\r\n", timeout)
		time.Sleep(15 * time.Millisecond)
		synctest.Wait()
		values, _ = c.inspected(1)
		assert.Equal(f, []string{"3", "1"}, []string{values["state"], values["attempts"]})
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		values, _ = c.inspected(1)
		assert.Equal(f, []string{"4", "2"}, []string{values["state"], values["attempts"]})
	})
}

func TestLine12MaxAttemptsFailTheJobAndWakeItsWaiters(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c, waiting := f.connect(), f.connect()
		c.do(add(1, "q", 100, 60000, "", "-max-attempts=1"), ok)
		waiting.send(result(1, 50000))
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		begin := time.Now()
		waiting.expect(ended(1, 0, ""))
		assert.InDelta(f, 100, time.Since(begin).Milliseconds(), 10)
		c.do(result(1, 0), ended(1, 0, ""))
		values, _ := c.inspected(1)
		assert.Equal(f, "2", values["state"])
	})
}

func TestEndAfter255Attempts(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c, waiting := f.connect(), f.connect()
		c.do(add(1, "q", 10, 2592000000, ""), ok)
		waiting.send(result(1, 86400000))
		for range workq.MaxAttempts {
			c.do("lease q 1000\r\n", job(1, "q", 10, ""))
		}
		waiting.expect(ended(1, 0, ""))
		c.do("lease q 1000\r\n", timeout)
	})
}

func TestLine13FailEndsTheJobWhateverMaxFailsSays(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 1000, 60000, "", "-max-fails=5"), ok)
		c.do("lease q 0\r\n", job(1, "q", 1000, ""))
		c.do(fail(1, "no"), ok)
		c.do(result(1, 0), ended(1, 0, "no"))
		values, _ := c.inspected(1)
		assert.Equal(f, []string{"2", "5", "0"}, []string{values["state"], values["max-fails"], values["fails"]})
		c.do("lease q 0\r\n", timeout)
	})
}

func TestLine14CompleteAndFailWithoutALease(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		const again = "-CLIENT-ERROR Duplicate result\r\n"
		c.do(add(1, "q", 1000, 60000, ""), ok)
		c.do(complete(1, "a"), ok)
		c.do(complete(1, "b"), again)
		c.do(fail(1, "b"), again)
		c.do(result(1, 0), ended(1, 1, "a"))
		c.do(scheduled(2, "q", 60000, time.Now().Add(time.Hour), ""), ok)
		c.do(fail(2, "a"), ok)
		c.do(complete(2, "b"), again)
		c.do("delete "+id(2)+"\r\n", ok)
		c.do(complete(2, "b"), missing)
		c.do(fail(2, "b"), missing)
		c.do("delete "+id(2)+"\r\n", missing)
		c.do(add(2, "other", 1000, 60000, ""), ok) // the ID is free
	})
}

func TestLine15LateCompleteEndsTheJob(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		a, b := f.connect(), f.connect()
		a.do(add(1, "q", 100, 60000, ""), ok)
		a.do("lease q 0\r\n", job(1, "q", 100, ""))
		time.Sleep(150 * time.Millisecond)
		a.do(complete(1, "late"), ok)
		b.do("lease q 10\r\n", timeout)
		// If a second worker has the job by then, that one gets Duplicate result.
		a.do(add(2, "q", 100, 60000, ""), ok)
		a.do("lease q 0\r\n", job(2, "q", 100, ""))
		b.do("lease q 1000\r\n", job(2, "q", 100, ""))
		a.do(complete(2, "late"), ok)
		b.do(complete(2, "mine"), "-CLIENT-ERROR Duplicate result\r\n")
		b.do(result(2, 0), ended(2, 1, "late"))
	})
}

func TestLine16AllWhoWaitGetTheResult(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 60000, 60000, ""), ok)
		var all []*client
		for range 3 {
			w := f.connect()
			w.send(result(1, 30000))
			all = append(all, w)
		}
		runner := f.connect()
		runner.send(run(2, "r", 60000, 30000, ""))
		c.do("lease r 30000\r\n", job(2, "r", 60000, ""))
		beside := f.connect()
		beside.send(result(2, 30000))
		require.Eventually(f, func() bool { return f.server.Waiting() == 5 }, time.Minute, time.Millisecond)
		c.do(complete(1, "all"), ok)
		c.do(complete(2, "both"), ok)
		for _, w := range all {
			w.expect(ended(1, 1, "all"))
		}
		runner.expect(ended(2, 1, "both"))
		beside.expect(ended(2, 1, "both"))
	})
}

func TestLine17Run(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		a, b := f.connect(), f.connect()
		unknownAndFree := func(n int) {
			b.do(result(n, 0), missing)
			b.do(complete(n, "late"), missing)
			b.do(add(n, "free", 1000, 60000, ""), ok)
		}
		a.send(run(1, "q", 1000, 5000, "x"))
		b.do("lease q 1000\r\n", job(1, "q", 1000, "x"))
		values, _ := b.inspected(1)
		assert.Equal(f, "0", values["ttl"])
		b.do(run(1, "q", 1000, 5000, ""), "-CLIENT-ERROR Duplicate job\r\n")
		b.do(fail(1, "no"), ok)
		a.expect(ended(1, 0, "no"))
		unknownAndFree(1)

		begin := time.Now()
		a.do(run(2, "q", 1000, 200, ""), timeout) // nobody leases it
		assert.InDelta(f, 205, time.Since(begin).Milliseconds(), 5)
		unknownAndFree(2)

		a.send(run(3, "q", 1000, 200, "")) // waits into the time to run
		b.do("lease q 1000\r\n", job(3, "q", 1000, ""))
		time.Sleep(500 * time.Millisecond)
		b.do(complete(3, "yes"), ok)
		a.expect(ended(3, 1, "yes"))
		unknownAndFree(3)

		begin = time.Now()
		a.send(run(4, "q", 1000, 200, "")) // at most until the time to run is over
		b.do("lease q 1000\r\n", job(4, "q", 1000, ""))
		a.expect(timeout)
		assert.InDelta(f, 1010, time.Since(begin).Milliseconds(), 10)
		unknownAndFree(4)
	})
}

func TestLine18DeleteDuringRun(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		a, b := f.connect(), f.connect()
		begin := time.Now()
		a.send(run(1, "q", 1000, 500, ""))
		b.do("lease q 1000\r\n", job(1, "q", 1000, ""))
		b.do("delete "+id(1)+"\r\n", ok)
		b.do(complete(1, ""), missing)
		a.expect(timeout)
		assert.InDelta(f, 505, time.Since(begin).Milliseconds(), 5)
		a.goes()
		b.goes()
	})
}

func TestLine19Schedule(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		begin := time.Now()
		c.do(scheduled(1, "q", 1000, begin.Add(2*time.Second), "x"), ok)
		c.do("lease q 1900\r\n", timeout)
		c.do("lease q 200\r\n", job(1, "q", 1000, "x"))
		assert.InDelta(f, 2000, time.Since(begin).Milliseconds(), 100)
		time.Sleep(time.Until(begin.Add(2900 * time.Millisecond))) // its time to live counts from its time
		_, _ = c.inspected(1)
		time.Sleep(200 * time.Millisecond)
		c.do("inspect job "+id(1)+"\r\n", missing)
		past := time.Now().Add(-time.Minute)
		c.do(scheduled(2, "q", 120_000, past, ""), ok)
		c.do("lease q 0\r\n", job(2, "q", 1000, ""))
		c.do(scheduled(3, "q", 30_000, past, ""), "-CLIENT-ERROR Invalid Time\r\n")
	})
}

func TestLine20JobIsGoneAtItsTTL(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "a", 10_000, 1000, ""), ok) // new
		c.do(add(2, "b", 10_000, 1000, ""), ok) // leased
		c.do("lease b 0\r\n", job(2, "b", 10_000, ""))
		c.do(add(3, "c", 100, 1000, ""), ok) // pending
		c.do("lease c 0\r\n", job(3, "c", 100, ""))
		c.do(add(4, "d", 10_000, 1000, ""), ok) // completed
		c.do(complete(4, ""), ok)
		c.do(add(5, "e", 10_000, 1000, ""), ok) // failed
		c.do(fail(5, ""), ok)
		c.do(scheduled(6, "f", 1, time.Now().Add(999*time.Millisecond).Truncate(time.Second).Add(time.Second), ""), ok)
		waiting := f.connect()
		begin := time.Now()
		waiting.send(result(1, 3000))
		time.Sleep(990 * time.Millisecond)
		assert.Equal(f, "0", c.evicted())
		time.Sleep(1100 * time.Millisecond)
		for n := 1; n <= 6; n++ {
			c.do("inspect job "+id(n)+"\r\n", missing)
			c.do(result(n, 0), missing)
			c.do(complete(n, ""), missing)
			c.do(add(n, "again", 1000, 60000, ""), ok)
		}
		assert.Equal(f, "4", c.evicted())
		c.do("lease a b c d e f 0\r\n", timeout)
		waiting.expect(timeout)
		assert.InDelta(f, 3005, time.Since(begin).Milliseconds(), 5)
	})
}

func TestLine21InspectJob(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		keys := []string{"name", "ttr", "ttl", "payload-size", "payload", "max-attempts", "attempts", "max-fails", "fails", "priority", "state", "created"}
		begin := time.Now().Truncate(time.Second)
		c.do(add(1, "q", 1000, 60000, "a\r\npayload 3\r\n", "-priority=-5", "-max-attempts=3", "-max-fails=2"), ok)
		values, got := c.inspected(1)
		assert.Equal(f, keys, got)
		created, err := time.Parse("2006-01-02T15:04:05Z", values["created"])
		require.NoError(f, err)
		assert.WithinRange(f, created, begin, time.Now())
		delete(values, "created")
		assert.Equal(f, map[string]string{
			"title": id(1), "name": "q", "ttr": "1000", "ttl": "60000", "payload-size": "14", "payload": "a\r\npayload 3\r\n",
			"max-attempts": "3", "attempts": "0", "max-fails": "2", "fails": "0", "priority": "-5", "state": "0",
		}, values)
		c.do(scheduled(2, "q", 60000, created.Add(time.Hour), ""), ok)
		values, got = c.inspected(2)
		assert.Equal(f, append(keys, "time"), got)
		assert.Equal(f, created.Add(time.Hour).Format("2006-01-02T15:04:05Z"), values["time"])
	})
}

func TestLine22InspectJobsPages(t *testing.T) {
	onEachStore(t, func(f *fixture) {
		c := f.connect()
		for n, priority := range []int{0, 5, 0, -5, 5} {
			c.do(add(n, "q", 60000, 600000, "p", fmt.Sprintf("-priority=%d", priority)), ok)
		}
		c.do(add(9, "q", 60000, 600000, "", "-priority=9"), ok)
		c.do("lease q 0\r\n", job(9, "q", 60000, "")) // leased jobs are not listed
		titles := func(command string) (titles []string) {
			c.send(command + "\r\n")
			var n int
			_, err := fmt.Sscanf(c.line(), "+OK %d", &n)
			require.NoError(f, err)
			for range n {
				values, _ := c.entry()
				titles = append(titles, values["title"])
			}
			return titles
		}
		assert.Equal(f, []string{id(1), id(4), id(0)}, titles("inspect jobs q 0 3"))
		assert.Equal(f, []string{id(2), id(3)}, titles("inspect jobs q 3 3"))
		c.do("inspect jobs q 5 3\r\n", "+OK 0\r\n")
		c.do("inspect scheduled-jobs q 0 3\r\n", "+OK 0\r\n")
		c.do("inspect jobs q 0 0\r\n", "-CLIENT-ERROR Invalid limit\r\n")
		c.do("inspect jobs q 0 101\r\n", "-CLIENT-ERROR Invalid limit\r\n")
		for n, after := range []time.Duration{2, 1} {
			c.do(scheduled(20+n, "s", 60000, time.Now().Add(after*time.Hour), ""), ok)
		}
		c.do(scheduled(22, "s", 60000, time.Now().Add(3*time.Hour), "", "-priority=1"), ok)
		assert.Equal(f, []string{id(22), id(21), id(20)}, titles("inspect scheduled-jobs s 0 10"))
		c.do("inspect queue s\r\n", "+OK 1\r\ns 2\r\nready-len 0\r\nscheduled-len 3\r\n")
		c.do("lease unheard 0\r\n", timeout)
		c.do("inspect queues 0 2\r\n", "+OK 2\r\nq 2\r\nready-len 5\r\nscheduled-len 0\r\ns 2\r\nready-len 0\r\nscheduled-len 3\r\n")
		c.do("inspect queues 2 9\r\n", "+OK 1\r\nunheard 2\r\nready-len 0\r\nscheduled-len 0\r\n")
	})
}

func TestLine23InspectServerAnnouncesAsManyLinesAsItSends(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c, started := f.connect(), time.Now().UTC().Format("2006-01-02T15:04:05Z")
		f.connect().goes()
		c.do("inspect server\r\n", "+OK 1\r\nserver 3\r\nactive-clients 2\r\nevicted-jobs 0\r\nstarted "+started+"\r\n")
	})
}

func TestLine24PacketsAreNoBoundaries(t *testing.T) {
	f := overTCP(t, outsidetest.Memory(t), noOptions)
	c := f.connect()
	c.do(add(1, "q", 60000, 60000, "x")+"lease q 0\r\n"+complete(1, "y")+"nonsense\r\n", ok+job(1, "q", 60000, "x")+ok+unknown)
	for _, b := range []byte(add(2, "q", 60000, 60000, "a\r\nb") + "lease q 0\r\n") {
		c.send(string(b))
	}
	c.expect(ok + job(2, "q", 60000, "a\r\nb"))
}

func TestLine25BadLinesCloseTheConnection(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		for _, bad := range []string{"inspect server\n", "\n", strings.Repeat("x", workq.MaxLine+1) + "\r\n", "add\n"} {
			c := f.connect()
			go func() { _, _ = c.conn.Write([]byte(bad)) }() // the server does not read all of it
			c.ends()
		}
		c := f.connect()
		c.do("lease "+strings.Repeat("x", workq.MaxLine-8)+" 0\r\n", "-CLIENT-ERROR Invalid Name\r\n")
		c.goes()
	})
}

func TestLine26JobsBelongToNoConnection(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		a, b := f.connect(), f.connect()
		a.do(add(1, "q", 60000, 600000, ""), ok)
		a.do("lease q 0\r\n", job(1, "q", 60000, ""))
		require.NoError(f, a.conn.Close())
		b.do(complete(1, ""), ok)
		// A client that vanishes while it waits.
		gone := f.connect()
		gone.send("lease q 86400000\r\n")
		time.Sleep(2 * time.Second)
		require.NoError(f, gone.conn.Close())
		synctest.Wait()
		b.do(add(2, "q", 60000, 600000, ""), ok)
		b.do("lease q 0\r\n", job(2, "q", 60000, ""))
	})
}

func TestLine27NothingIsLostByAKillAndARestart(t *testing.T) {
	path := t.TempDir() + "/jobs.db"
	f, kill := inProcess(t, path)
	c := f.connect()
	begin := time.Now()
	c.do(add(1, "q", 600_000, 3_600_000, "ready"), ok)
	end := endOfLife(t, path, "q", 1)
	assert.WithinRange(t, end, begin.Add(time.Hour-time.Millisecond), time.Now().Add(time.Hour+time.Millisecond))
	c.do(add(2, "r", 60000, 3_600_000, ""), ok)
	c.do(complete(2, "result"), ok)
	c.do(add(3, "r", 60000, 3_600_000, ""), ok)
	c.do("delete "+id(3)+"\r\n", ok)
	c.do(add(4, "s", 1500, 3_600_000, "leased"), ok)
	c.do("lease s 0\r\n", job(4, "s", 1500, "leased"))
	begin = time.Now()
	c.do(add(5, "t", 60000, 3000, "short"), ok)
	kill()

	f, _ = inProcess(t, path)
	c = f.connect()
	c.do("inspect queue q\r\n", "+OK 1\r\nq 2\r\nready-len 1\r\nscheduled-len 0\r\n")
	c.do(result(2, 0), ended(2, 1, "result"))
	c.do(result(3, 0), missing)
	c.do(add(2, "q", 1000, 1000, ""), "-CLIENT-ERROR Duplicate job\r\n")
	assert.Equal(t, end, endOfLife(t, path, "q", 1))
	c.do("lease q 0\r\n", job(1, "q", 600_000, "ready"))
	c.do("lease s 10000\r\n", job(4, "s", 1500, "leased")) // its time to run ended
	require.Eventually(t, func() bool {
		c.send("inspect job " + id(5) + "\r\n")
		if c.line() == "-NOT-FOUND" {
			return true
		}
		_, _ = c.entry()
		return false
	}, time.Minute, 5*time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(begin), 2990*time.Millisecond)
}

// endOfLife reads from a file when the time to live of a job is over.
func endOfLife(t *testing.T, path, name string, n int) time.Time {
	t.Helper()
	store := outsidetest.SQLite(t, path)
	r, err := store.Get(t.Context(), name, id(n))
	require.NoError(t, err)
	require.NoError(t, store.Close(t.Context()))
	return r.TimeInfo.DispatchBy
}

// countingDriver counts the claims.
type countingDriver struct {
	driver.Driver
	claims atomic.Int64
}

func (d *countingDriver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	d.claims.Add(1)
	return d.Driver.Claim(ctx, req)
}

func TestLine28IdleConnectionsDoNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		counting := &countingDriver{Driver: outsidetest.Memory(t)}
		f := start(t, counting, noOptions, l, l.Dial)
		defer f.close()
		all := make([]*client, 1000)
		for i := range all {
			all[i] = f.connect()
			all[i].send("lease q 600000\r\n")
		}
		synctest.Wait()
		before := counting.claims.Load()
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, counting.claims.Load()-before, int64(30), "the safety polls of one line")
		f.connect().do(add(1, "q", 1000, 1000, ""), ok)
		for _, c := range all {
			require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
			if line, err := c.in.ReadString('\n'); err == nil {
				require.Equal(t, "+OK 1\r\n", line)
				return
			}
		}
		t.Error("no client was given the job")
	})
}
