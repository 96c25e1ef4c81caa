package pinlater_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Serve the queues of a group to PinLater's clients.
func ExampleServer() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, CloseDriver: true,
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	}})
	must(err)
	dispatcher, err := outside.NewGroup(group, outside.Options{})
	must(err)
	server, err := pinlater.New(group, dispatcher, pinlater.Options{})
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // clients expect pinlater.DefaultAddress
	must(err)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	runAsClient(ctx, listener.Addr().String())

	must(server.Close(ctx))
	if err = <-served; !errors.Is(err, pinlater.ErrClosed) {
		panic(err)
	}
	must(dispatcher.Close(ctx))
	must(group.Close(ctx))
	// Output:
	// got "cat.png", which may be tried 2 times
	// jobs that succeeded: 1
}

// runAsClient puts a job and runs it.
func runAsClient(ctx context.Context, address string) {
	config := &thrift.TConfiguration{}
	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketConf(address, config), config)
	must(framed.Open())
	protocol := thrift.NewTBinaryProtocolConf(framed, config)
	client := wire.NewPinLaterClient(thrift.NewTStandardClient(protocol, protocol))
	source := &wire.RequestContext{Source: "web-1"}

	must(client.CreateQueue(ctx, source, "images"))
	job := wire.NewPinLaterJob()
	job.Body = []byte("cat.png")
	_, err := client.EnqueueJobs(ctx, source, &wire.PinLaterEnqueueRequest{QueueName: "images", Jobs: []*wire.PinLaterJob{job}})
	must(err)

	request := wire.NewPinLaterDequeueRequest()
	request.QueueName, request.Limit = "images", 10
	found, err := client.DequeueJobs(ctx, source, request)
	must(err)
	acks := &wire.PinLaterJobAckRequest{QueueName: "images"}
	for descriptor, body := range found.Jobs {
		fmt.Printf("got %q, which may be tried %d times\n", body, found.JobMetadata[descriptor].GetAttemptsRemaining())
		ack := wire.NewPinLaterJobAckInfo()
		ack.JobDescriptor = descriptor
		acks.JobsSucceeded = append(acks.JobsSucceeded, ack)
	}
	must(client.AckDequeuedJobs(ctx, source, acks))

	count := wire.NewPinLaterGetJobCountRequest()
	count.QueueName, count.JobState = "images", wire.PinLaterJobState_SUCCEEDED
	n, err := client.GetJobCount(ctx, source, count)
	must(err)
	fmt.Println("jobs that succeeded:", n)
	must(framed.Close())
}

// The hash goes into a configuration, the password to the operators who may delete queues.
func ExamplePasswordHash() {
	fmt.Println(pinlater.PasswordHash("secret"))
	// Output: 63b747ec220ad5b796386abf1a12a2b046201537078df846e5e433bd5e46601b
}
