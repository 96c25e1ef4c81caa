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

// slowDrops is a store that begins to remove notes late.
type slowDrops struct {
	driver.Driver
	slow atomic.Bool
}

func (s *slowDrops) Drop(ctx context.Context, kind string, keys ...string) error {
	if s.slow.Load() {
		time.Sleep(time.Second)
	}
	return s.Driver.Drop(ctx, kind, keys...)
}

// The removal of a job also removed what was known of another job with the same ID, which was put
// meanwhile. Its worker could not complete it, and it was never removed.
func TestAnIDWasNotFoundAfterAnEarlierJobWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowDrops{Driver: outsidetest.Memory(t)}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		remover, worker := f.connect(), f.connect()
		remover.do(add(1, "q", 1000, 10_000, ""), ok)
		store.slow.Store(true)
		remover.send("delete " + id(1) + "\r\n")
		synctest.Wait() // the job is removed, and its ID is not
		worker.do(add(1, "q", 60_000, 10_000, ""), ok)
		worker.do("lease q 0\r\n", job(1, "q", 60_000, ""))
		remover.expect(ok)
		worker.do(complete(1, "done"), ok)
		time.Sleep(20 * time.Second)
		page, err := store.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("the job is still stored: %v %v", page.Records, err)
		}
		f.close()
	})
}
