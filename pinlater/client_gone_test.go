package pinlater_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

// slowOnce is a store that answers one claim late.
type slowOnce struct {
	driver.Driver
	late atomic.Int64
}

func (s *slowOnce) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	time.Sleep(time.Duration(s.late.Swap(0)))
	return s.Driver.Claim(ctx, req)
}

// A client whose time was over closed its connection while the store was slow. Its jobs stayed claimed for ten
// minutes, and then their attempts had failed.
func TestJobsWereClaimedForAClientThatHadGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowOnce{Driver: stores["memory"](t)}
		f := newFixtureOn(t, store, noOptions, outsidetest.NewPipes())
		f.createQueue(mail)
		job := f.put("a")
		conn := f.dial()
		config := &thrift.TConfiguration{}
		framed := thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, config), config)
		p := thrift.NewTBinaryProtocolConf(framed, config)
		impatient := wire.NewPinLaterClient(thrift.NewTStandardClient(p, p))
		store.late.Store(int64(8 * time.Second))
		answered := make(chan error, 1)
		go func() {
			_, err := impatient.DequeueJobs(f.ctx, test, dequeueRequest(1))
			answered <- err
		}()
		time.Sleep(5 * time.Second)
		require.NoError(t, conn.Close())
		require.Error(t, <-answered)
		time.Sleep(10 * time.Second)
		f.hasState(job, wire.PinLaterJobState_PENDING, 2)
		f.close()
	})
}

func TestASlowCallIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowOnce{Driver: stores["memory"](t)}
		f := newFixtureOn(t, store, noOptions, outsidetest.NewPipes())
		f.createQueue(mail)
		f.put("a")
		store.late.Store(int64(5 * time.Second))
		require.Equal(t, "a", f.dequeueOne())
		f.put("b")
		require.Equal(t, "b", f.dequeueOne())
		f.close()
	})
}
