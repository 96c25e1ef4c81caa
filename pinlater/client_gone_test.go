package pinlater_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/pinlater"
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
		impatient := clientOn(conn)
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

// slowLater is a store whose claims are slow after the first hundred jobs.
type slowLater struct {
	driver.Driver
	claimed atomic.Int64
}

func (s *slowLater) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if s.claimed.Load() >= 100 {
		time.Sleep(8 * time.Second)
	}
	claimed, err := s.Driver.Claim(ctx, req)
	s.claimed.Add(int64(len(claimed.Records)))
	return claimed, err
}

// unaware is a listener whose connections take what is written after their clients have closed them, as those of
// TCP do.
type unaware struct{ *outsidetest.Pipes }

func (l unaware) Accept() (net.Conn, error) {
	conn, err := l.Pipes.Accept()
	return unawareConn{conn}, err
}

type unawareConn struct{ net.Conn }

func (c unawareConn) Write(p []byte) (int, error) {
	_, _ = c.Conn.Write(p)
	return len(p), nil
}

func (c unawareConn) SetWriteDeadline(t time.Time) error {
	_ = c.Conn.SetWriteDeadline(t)
	return nil
}

// More than a hundred jobs are claimed in parts. Those that were claimed before the client had gone were sent to it.
func TestTheFirstOfManyJobsWereSentToAClientThatHadGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOn(t, &slowLater{Driver: stores["memory"](t)}, noOptions, outsidetest.NewPipes())
		f.createQueue(mail)
		jobs := make([]*wire.PinLaterJob, 150)
		for i := range jobs {
			jobs[i] = newJob("a")
		}
		f.enqueue(jobs...)
		pipes, served := outsidetest.NewPipes(), make(chan error, 1)
		go func() { served <- f.server.Serve(unaware{pipes}) }()
		conn, err := pipes.Dial()
		require.NoError(t, err)
		impatient, answered := clientOn(conn), make(chan error, 1)
		go func() {
			_, err := impatient.DequeueJobs(f.ctx, test, dequeueRequest(150))
			answered <- err
		}()
		time.Sleep(5 * time.Second)
		require.NoError(t, conn.Close())
		require.Error(t, <-answered)
		time.Sleep(10 * time.Second)
		require.Equal(t, 150, f.count(wire.PinLaterJobState_PENDING))
		f.close()
		require.ErrorIs(t, <-served, pinlater.ErrClosed)
	})
}
