package workq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
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

// A server that could not read a job at the end of its time to run tried again, which replaced the time
// of a later lease of the job. That lease never timed out.
func TestTheTimeOfALaterLeaseWasLostAfterTheStoreFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &holding{Driver: outsidetest.Memory(t), release: make(chan struct{})}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		c := f.connect()
		c.do(add(1, "q", 3000, 3_600_000, ""), ok)
		c.do("lease q 0\r\n", job(1, "q", 3000, ""))
		store.hold.Store(true)
		time.Sleep(4 * time.Second) // the server reads the job, in order to hand it back
		leased, err := f.dispatcher.Leased(t.Context(), "q", outside.DefaultLease, id(1))
		require.NoError(t, err)
		// As another server may do meanwhile.
		require.NoError(t, f.dispatcher.Acknowledge(t.Context(), outside.Ack{Token: leased[id(1)].Token, Release: &outside.Release{}})[0])
		c.do("lease q 0\r\n", job(1, "q", 3000, ""))
		close(store.release)
		c.do("lease q 10000\r\n", job(1, "q", 3000, ""))
		f.close()
	})
}
