package workq_test

import (
	"context"
	"errors"
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

// countingStore counts the reads of single jobs and of notes, and the renewals of leases.
type countingStore struct {
	driver.Driver
	reads, renewals atomic.Int64
}

func (s *countingStore) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	s.reads.Add(1)
	return s.Driver.Get(ctx, queue, id)
}

func (s *countingStore) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	s.reads.Add(1)
	return s.Driver.Notes(ctx, req)
}

func (s *countingStore) Extend(ctx context.Context, leases []driver.Lease, length time.Duration) ([]driver.Lease, error) {
	s.renewals.Add(1)
	return s.Driver.Extend(ctx, leases, length)
}

func TestCompleteOfALeasedJobReadsItOnce(t *testing.T) {
	store := &countingStore{Driver: outsidetest.Memory(t)}
	c := overTCP(t, store, workq.Options{}).connect()
	for n, end := range []func(int, string) string{complete, fail} {
		c.do(add(n, "q", 60_000, 60_000, "payload"), ok)
		c.do("lease q 1000\r\n", job(n, "q", 60_000, "payload"))
		assert.Zero(t, store.renewals.Load(), "a lease of a minute is taken with one write")
		before := store.reads.Load()
		c.do(end(n, "result"), ok)
		assert.EqualValues(t, 1, store.reads.Load()-before)
		c.do(result(n, 0), ended(n, 1-n, "result"))
		c.do(end(n, "again"), "-CLIENT-ERROR Duplicate result\r\n")
	}
}

// The connection of the worker broke before it had the answer. The job waited until its time to run was over, and had an
// attempt less.
func TestAJobThatDidNotReachItsWorkerStayedLeased(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c, worker := f.connect(), f.connect()
		c.do(add(1, "q", 60_000, 86_400_000, "", "-max-attempts=1"), ok)
		worker.send("lease q 0\r\n")
		synctest.Wait() // the server writes the answer
		require.NoError(t, worker.conn.Close())
		synctest.Wait()
		c.do("lease q 0\r\n", job(1, "q", 60_000, ""))
		c.do(complete(1, ""), ok)
	})
}

func TestALeaseLastsLongerThanALongTimeToRun(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		c := f.connect()
		c.do(add(1, "q", 3_600_000, 86_400_000, ""), ok)
		c.do("lease q 0\r\n", job(1, "q", 3_600_000, ""))
		time.Sleep(59 * time.Minute)
		c.do("lease q 0\r\n", timeout)
		c.do(complete(1, ""), ok)
	})
}

func TestAJobThatAnotherServerHasLeasedIsCompleted(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		l := outsidetest.NewPipes()
		other := start(f.T, keptOpen{f.driver}, noOptions, l, l.Dial)
		a, b := f.connect(), other.connect()
		a.do(add(1, "q", 60_000, 60_000, ""), ok)
		b.do("lease q 0\r\n", job(1, "q", 60_000, ""))
		a.do(complete(1, "there"), ok)
		b.do(complete(1, "here"), "-CLIENT-ERROR Duplicate result\r\n")
		b.do(result(1, 0), ended(1, 1, "there"))
		other.close()
	})
}

// slowStore is a store in which the first call of an action finds no job, and returns a cursor.
type slowStore struct{ driver.Driver }

func (s *slowStore) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	if req.After == "" {
		return driver.Acted{Next: "slow"}, nil
	}
	req.After = ""
	return s.Driver.Act(ctx, req)
}

func TestADeleteOfAJobInALargeQueueRemovedNothing(t *testing.T) {
	store := &slowStore{outsidetest.Memory(t)}
	c := overTCP(t, store, workq.Options{}).connect()
	c.do(add(1, "q", 60_000, 60_000, "payload"), ok)
	c.do("delete "+id(1)+"\r\n", ok)
	page, err := store.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1})
	require.NoError(t, err)
	assert.Empty(t, page.Records)
}

// keptOpen is a store that another fixture closes.
type keptOpen struct{ driver.Driver }

func (keptOpen) Close(context.Context) error { return nil }

// unreadable is a store that finds no job while it is broken.
type unreadable struct {
	driver.Driver
	broken atomic.Bool
}

var errBroken = errors.New("broken")

func (s *unreadable) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	if s.broken.Load() {
		return nil, errBroken
	}
	return s.Driver.Get(ctx, queue, id)
}

// TestAJobThatIsTooOldIsNotCompleted requires that a job is gone at its time to live even if it can't
// be removed yet.
func TestAJobThatIsTooOldIsNotCompleted(t *testing.T) {
	store := &unreadable{Driver: outsidetest.Memory(t)}
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		c := f.connect()
		c.do(add(1, "q", 60_000, 1000, ""), ok)
		c.do("lease q 0\r\n", job(1, "q", 60_000, ""))
		store.broken.Store(true)
		time.Sleep(2500 * time.Millisecond) // the server has tried to remove it, and tries again
		store.broken.Store(false)
		c.do(complete(1, "late"), missing)
		f.close()
	})
}
