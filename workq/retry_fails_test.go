package workq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/workq"
)

// The tests of this file are about -max-fails as workq documents it.

var retryFails = workq.Options{RetryFails: true}

// counts expects the state, the attempts and the fails of job 1.
func (c *client) counts(state, attempts, fails string) {
	c.Helper()
	values, _ := c.inspected(1)
	assert.Equal(c, []string{state, attempts, fails}, []string{values["state"], values["attempts"], values["fails"]})
}

func TestFailPutsTheJobBackUntilItHasFailedMaxFailsTimes(t *testing.T) {
	onEachStoreWith(t, retryFails, func(f *fixture) {
		c, waiting := f.connect(), f.connect()
		c.do(add(1, "q", 60000, 600000, "x", "-max-fails=3"), ok)
		c.do(add(2, "q", 60000, 600000, "younger"), ok)
		waiting.send(result(1, 60000))
		for n, fails := range []string{"1", "2"} {
			c.do("lease q 0\r\n", job(1, "q", 60000, "x"))
			c.do(fail(1, "once more"), ok)
			c.counts("3", fails, fails)
			if n == 0 {
				c.do(result(1, 1), timeout)
			}
		}
		c.do("lease q 0\r\n", job(1, "q", 60000, "x"))
		c.do(fail(1, "enough"), ok)
		waiting.expect(ended(1, 0, "enough"))
		c.counts("2", "3", "3")
		c.do(fail(1, ""), "-CLIENT-ERROR Duplicate result\r\n")
		c.do("lease q 0\r\n", job(2, "q", 60000, "younger"))
		c.do(fail(2, "without the flag"), ok)
		c.do(result(2, 0), ended(2, 0, "without the flag"))
		c.do(fail(3, ""), missing)
	})
}

func TestFailOfTheLastAttemptEndsTheJob(t *testing.T) {
	inFakeTime(t, retryFails, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 100, 600000, "", "-max-fails=5", "-max-attempts=3"), ok)
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		c.do("lease q 200\r\n", job(1, "q", 100, "")) // a time-out is an attempt, and no fail
		c.counts("4", "2", "0")
		c.do(fail(1, ""), ok)
		c.counts("3", "2", "1")
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		c.do(fail(1, "last"), ok)
		c.do(result(1, 0), ended(1, 0, "last"))
		c.counts("2", "3", "2")
	})
}

func TestFailWithoutALeaseCounts(t *testing.T) {
	onEachStoreWith(t, retryFails, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 60000, 600000, "x", "-max-fails=2"), ok)
		c.do(fail(1, ""), ok)
		c.counts("0", "0", "1")
		c.do("lease q 0\r\n", job(1, "q", 60000, "x"))
		c.do(fail(1, "second"), ok)
		c.do(result(1, 0), ended(1, 0, "second"))
		c.do(scheduled(2, "q", 60000, time.Now().Add(time.Hour), "", "-max-fails=2"), ok)
		c.do(fail(2, ""), ok)
		c.do(fail(2, "scheduled"), ok)
		c.do(result(2, 0), ended(2, 0, "scheduled"))
	})
}

func TestFailOfAJobThatAnotherServerHasLeased(t *testing.T) {
	inFakeTime(t, retryFails, func(f *fixture) {
		a := f.connect()
		l := outsidetest.NewPipes()
		other, err := workq.New(f.group, f.dispatcher, retryFails)
		require.NoError(t, err)
		stop := outsidetest.Serve(t, other, l)
		f.dial = l.Dial
		b := f.connect()
		a.do(add(1, "q", 3000, 600000, "", "-max-fails=9"), ok)
		a.do("lease q 0\r\n", job(1, "q", 3000, ""))
		b.do(fail(1, ""), ok)
		b.counts("3", "1", "1")
		b.do("lease q 0\r\n", job(1, "q", 3000, ""))
		a.do(fail(1, ""), ok) // it knows of the first lease only
		a.counts("3", "2", "2")
		stop()
	})
}

// lateReleases is a store that answers hand-backs late.
type lateReleases struct{ driver.Driver }

func (s lateReleases) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	errs, err := s.Driver.Release(ctx, handBacks)
	time.Sleep(100 * time.Millisecond) // fake time
	return errs, err
}

// When a job is put back by a fail, the next worker may get it before the server has forgotten the lease of the failed
// one. The time to run of the next worker is kept.
func TestTimeToRunAfterAFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		f := start(t, lateReleases{outsidetest.Memory(t)}, retryFails, l, l.Dial)
		a, b := f.connect(), f.connect()
		a.do(add(1, "q", 3000, 3_600_000, "", "-max-fails=5"), ok)
		a.do("lease q 0\r\n", job(1, "q", 3000, ""))
		b.send("lease q 60000\r\n")
		synctest.Wait()
		a.do(fail(1, ""), ok)
		b.expect(job(1, "q", 3000, ""))
		begin := time.Now()
		a.do("lease q 60000\r\n", job(1, "q", 3000, ""))
		assert.InDelta(t, 2950, time.Since(begin).Milliseconds(), 60)
		f.close()
	})
}

func TestAFailIsCountedOnceIfTheStoreFails(t *testing.T) {
	store := &refusing{Driver: outsidetest.Memory(t)}
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		f := start(t, store, retryFails, l, l.Dial)
		c := f.connect()
		c.do(add(1, "q", 86_400_000, 86_400_000, "", "-max-fails=3"), ok)
		c.do("lease q 0\r\n", job(1, "q", 86_400_000, ""))
		store.refuses.Store(true)
		for range 3 {
			c.do(fail(1, ""), "-SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker\r\n")
		}
		store.refuses.Store(false)
		c.do(fail(1, ""), ok)
		c.counts("3", "1", "1")
		f.close()
	})
}
