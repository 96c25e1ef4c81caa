//go:build unix

package benchmarks

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// pinlaterServer serves PinLater's protocol over TCP.
type pinlaterServer struct {
	address string
	close   func()
}

func newPinLaterServer(tb testing.TB, store driver.Driver) pinlaterServer {
	g := outsidetest.StartGroup(tb, queue.DriverQueueOptions{Driver: store, CloseDriver: true}, outside.Options{})
	s, err := pinlater.New(g.Queues, g.Dispatcher, pinlater.Options{})
	require.NoError(tb, err)
	listener := outsidetest.Listen(tb)
	stop := outsidetest.Serve(tb, s, listener)
	return pinlaterServer{address: listener.Addr().String(), close: func() {
		stop()
		g.Close()
	}}
}

// connect returns a client on a connection of its own.
func (s pinlaterServer) connect(tb testing.TB) (client *wire.PinLaterClient, closeIt func()) {
	config := &thrift.TConfiguration{}
	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketConf(s.address, config), config)
	require.NoError(tb, framed.Open())
	p := thrift.NewTBinaryProtocolConf(framed, config)
	return wire.NewPinLaterClient(thrift.NewTStandardClient(p, p)), func() { _ = framed.Close() }
}

// pinlaterPause is how long a worker pauses that was given fewer jobs than it asked for:
// PinLater's dequeue does not wait for jobs.
const pinlaterPause = 10 * time.Millisecond

// pinlaterDrain enqueues jobs one at a time on 5 connections, and at the same time dequeues
// and acknowledges them 50 at a time on 5 others. It returns how long that took.
func pinlaterDrain(tb testing.TB, s pinlaterServer, jobs int64) time.Duration {
	ctx := context.Background()
	source := &wire.RequestContext{Source: "bench"}
	first, closeFirst := s.connect(tb)
	require.NoError(tb, first.CreateQueue(ctx, source, "bench"))
	closeFirst()
	var put, done atomic.Int64
	var clients sync.WaitGroup
	begin := time.Now()
	for range 5 {
		clients.Go(func() {
			client, closeIt := s.connect(tb)
			defer closeIt()
			for put.Add(1) <= jobs {
				j := wire.NewPinLaterJob()
				j.Body = []byte(`{"path":"cat.png","width":640}`)
				if _, err := client.EnqueueJobs(ctx, source, &wire.PinLaterEnqueueRequest{QueueName: "bench", Jobs: []*wire.PinLaterJob{j}}); err != nil {
					tb.Error(err)
					return
				}
			}
		})
		clients.Go(func() {
			client, closeIt := s.connect(tb)
			defer closeIt()
			request := wire.NewPinLaterDequeueRequest()
			request.QueueName, request.Limit = "bench", 50
			request.JobAckRequest = &wire.PinLaterJobAckRequest{QueueName: "bench"}
			for done.Load() < jobs {
				reply, err := client.DequeueJobs(ctx, source, request)
				if err != nil {
					tb.Error(err)
					return
				}
				done.Add(int64(len(request.JobAckRequest.JobsSucceeded)))
				request.JobAckRequest.JobsSucceeded = nil
				if len(reply.Jobs) < int(request.Limit) {
					<-time.After(pinlaterPause)
				}
				for descriptor := range reply.Jobs {
					info := wire.NewPinLaterJobAckInfo()
					info.JobDescriptor = descriptor
					request.JobAckRequest.JobsSucceeded = append(request.JobAckRequest.JobsSucceeded, info)
				}
			}
		})
	}
	clients.Wait()
	return time.Since(begin)
}

// BenchmarkPinLater measures how many jobs per second go through a server on SQLite: enqueued
// one at a time on 5 connections, and dequeued and acknowledged 50 at a time on 5 others.
func BenchmarkPinLater(b *testing.B) {
	const jobs = 20_000
	for name, open := range outsideStores {
		b.Run(name, func(b *testing.B) {
			var took samples
			for b.Loop() {
				s := newPinLaterServer(b, open(b))
				took = append(took, pinlaterDrain(b, s, jobs))
				s.close()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.rate(jobs), "jobs/s")
		})
	}
}

// TestPinLaterDrain runs the benchmark with few jobs.
func TestPinLaterDrain(t *testing.T) {
	s := newPinLaterServer(t, outsideStores["memory"](t))
	defer s.close()
	pinlaterDrain(t, s, 100)
}
