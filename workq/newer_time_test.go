package workq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
)

// holding is a store that holds up the first read of a job after hold, and then fails it.
type holding struct {
	driver.Driver
	hold    atomic.Bool
	release chan struct{}
}

func (s *holding) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	if s.hold.CompareAndSwap(true, false) {
		<-s.release
		return nil, errBroken
	}
	return s.Driver.Get(ctx, queue, id)
}

// A server that could not read a job at the end of its time to live tried again, which replaced the
// time of a later job with the same ID. That job was never removed.
func TestTheTimeOfALaterJobWasLostAfterTheStoreFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &holding{Driver: outsidetest.Memory(t), release: make(chan struct{})}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		c := f.connect()
		c.do(add(1, "q", 1000, 1000, ""), ok)
		store.hold.Store(true)
		time.Sleep(1500 * time.Millisecond) // the server reads the job, in order to remove it
		c.do(add(1, "q", 1000, 10_000, ""), ok)
		close(store.release)
		time.Sleep(20 * time.Second)
		page, err := store.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("the job is still stored: %v %v", page.Records, err)
		}
		f.close()
	})
}
