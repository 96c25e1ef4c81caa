package workq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
)

// shifted is a store as used by a process whose wall clock was set: the times of jobs that it reads are as far from
// the present as they seem then.
type shifted struct {
	driver.Driver
	by atomic.Int64
}

func (s *shifted) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	r, err := s.Driver.Get(ctx, queue, id)
	if err != nil {
		return nil, err
	}
	for _, at := range []*time.Time{&r.TimeInfo.Start, &r.TimeInfo.DispatchBy} {
		if !at.IsZero() {
			*at = at.Add(time.Duration(s.by.Load()))
		}
	}
	return r, nil
}

// afterTheClockIsSet runs a test in fake time.
func afterTheClockIsSet(t *testing.T, test func(*fixture, *shifted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &shifted{Driver: outsidetest.Memory(t)}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		test(f, store)
		f.close()
	})
}

// A job whose time to live passed while the wall clock was behind was never evicted.
func TestAJobWasNeverEvictedAfterTheClockWasSetBack(t *testing.T) {
	afterTheClockIsSet(t, func(f *fixture, store *shifted) {
		c := f.connect()
		c.do(add(1, "q", 1000, 10_000, ""), ok)
		store.by.Store(int64(5 * time.Second))
		time.Sleep(11 * time.Second)
		assert.Equal(t, "0", c.evicted())
		_, _ = c.inspected(1)
		store.by.Store(0) // as much time as the clock was set back by has passed
		time.Sleep(5 * time.Second)
		assert.Equal(t, "1", c.evicted())
	})
}

// The client of a run was not told the result, because the time to run of the worker seemed to be over.
func TestARunEndedBeforeItsLeaseAfterTheClockWasSetForward(t *testing.T) {
	afterTheClockIsSet(t, func(f *fixture, store *shifted) {
		runner, worker := f.connect(), f.connect()
		runner.send(run(1, "q", 10_000, 200, ""))
		worker.do("lease q 1000\r\n", job(1, "q", 10_000, ""))
		store.by.Store(int64(-20 * time.Second))
		time.Sleep(5 * time.Second)
		worker.do(complete(1, "done"), ok)
		runner.expect(ended(1, 1, "done"))
	})
}
