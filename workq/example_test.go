package workq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/workq"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// newGroup returns a group whose jobs only outside workers run, and its dispatcher.
func newGroup(ctx context.Context) (amboy.QueueGroup, *outside.Dispatcher) {
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, CloseDriver: true,
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	}})
	must(err)
	dispatcher, err := outside.NewGroup(group, outside.Options{})
	must(err)
	return group, dispatcher
}

func Example() {
	ctx := context.Background()
	group, dispatcher := newGroup(ctx)
	server, err := workq.New(group, dispatcher, workq.Options{})
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It does not wait.
	must(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	// A client puts a job, and a worker leases and completes it.
	conn, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // It is local.
	must(err)
	_, err = io.WriteString(conn, "add 6ba7b810-9dad-41d1-80b4-00c04fd430c4 ping 5000 60000 4\r\nping\r\n"+
		"lease ping 1000\r\n"+
		"complete 6ba7b810-9dad-41d1-80b4-00c04fd430c4 4\r\npong\r\n"+
		"result 6ba7b810-9dad-41d1-80b4-00c04fd430c4 0\r\n")
	must(err)
	answers := bufio.NewScanner(conn)
	for range 8 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	must(conn.Close())

	must(server.Close(ctx))
	if err = <-served; !errors.Is(err, workq.ErrClosed) {
		panic(err)
	}
	must(dispatcher.Close(ctx))
	must(group.Close(ctx))
	// Output:
	// +OK
	// +OK 1
	// 6ba7b810-9dad-41d1-80b4-00c04fd430c4 ping 5000 4
	// ping
	// +OK
	// +OK 1
	// 6ba7b810-9dad-41d1-80b4-00c04fd430c4 1 4
	// pong
}

func ExampleNew() {
	ctx := context.Background()
	group, dispatcher := newGroup(ctx)
	_, err := workq.New(group, dispatcher, workq.Options{Prefix: "ann"})
	fmt.Println(err)

	// The clients of a server for a tenant reach no queues of others.
	server, err := workq.New(group, dispatcher, workq.Options{Prefix: "ann:", MaxConnections: 100})
	must(err)
	must(server.Close(ctx))
	must(dispatcher.Close(ctx))
	must(group.Close(ctx))
	// Output:
	// invalid workq options: Prefix must end in a character that names do not have, such as a colon (is "ann")
}

func ExampleServer_Serve() {
	ctx := context.Background()
	group, dispatcher := newGroup(ctx)
	server, err := workq.New(group, dispatcher, workq.Options{})
	must(err)
	listener, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec,noctx // It is refused.
	must(err)
	err = server.Serve(listener)
	fmt.Println(err != nil) // The protocol has no login, so other machines need AllowRemote.
	must(server.Close(ctx))
	must(dispatcher.Close(ctx))
	must(group.Close(ctx))
	// Output: true
}
