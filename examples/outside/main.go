// Outside puts jobs that workers in other languages run, and prints their results.
//
//	go run ./examples/outside            # prints what to type in another terminal
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/retry"
)

// countArgs are the arguments of count. The workers read them as JSON.
type countArgs struct {
	Text  string  `json:"text"`
	Pause float64 `json:"pause,omitempty"` // seconds for each word
	Fail  bool    `json:"fail,omitempty"`  // whether the first attempt fails
}

type countResult struct {
	Words int    `json:"words"`
	By    string `json:"by"`
}

// count has no function here: workers run it.
var count = job.DeclareResult[countArgs, countResult]("count", 1, job.Defaults[countArgs]{MaxAttempts: 3, RetryPolicy: retry.Fixed{}})

func main() {
	file := flag.String("db", "outside.db", "the file of the jobs")
	address := flag.String("listen", "localhost:8080", "the address of the HTTP server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *file, *address, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(1)
	}
}

// run puts a job for each line of in, and prints the results in the order of the lines.
func run(ctx context.Context, file, address string, in io.Reader, out io.Writer) error {
	s, err := start(ctx, file, address)
	if err != nil {
		return err
	}
	defer s.close(context.WithoutCancel(ctx))
	_, _ = fmt.Fprintf(out, "Type lines of text. In another terminal start a worker in examples/outside:\n\n"+
		"  export AMBOY_URL=%s AMBOY_TOKEN=%s\n  python3 worker.py texts\n  node worker.mjs texts\n  bash worker.sh texts\n\n", s.url, s.token)
	return countLines(ctx, s.queue, in, out)
}

// service is a queue whose jobs workers get over HTTP.
type service struct {
	queue      amboy.Queue
	dispatcher *outside.Dispatcher
	server     *http.Server
	served     chan struct{}
	url, token string
}

func start(ctx context.Context, file, address string) (s *service, err error) {
	store, err := sqlite.Open(ctx, sqlite.Options{Path: file})
	if err != nil {
		return nil, err
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, Name: "texts",
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil }, // this process runs no jobs
	})
	if err != nil {
		return nil, errors.Join(err, store.Close(ctx))
	}
	s = &service{queue: q, token: rand.Text(), served: make(chan struct{})}
	opened := s // a return of nil sets s to nil
	defer func() {
		if err != nil {
			opened.close(ctx)
		}
	}()
	err = q.Start(ctx)
	if err != nil {
		return nil, err
	}
	s.dispatcher, err = outside.New(q, outside.Options{})
	if err != nil {
		return nil, err
	}
	inspector, err := management.NewInspector(q)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	s.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           rest.Handler(inspector, rest.Workers(s.dispatcher), rest.Authorize(s.authorize)),
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener) // it ends with Shutdown
	}()
	return s, nil
}

// authorize lets clients with the token do anything.
func (s *service) authorize(r *http.Request, _ rest.Access) error {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.token)) != 1 {
		return rest.ErrUnauthenticated
	}
	return nil
}

// close stops the server first, so that waiting workers get an answer.
func (s *service) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.server != nil {
		_ = s.server.Shutdown(ctx) // workers send again what was not answered
		<-s.served
	}
	if s.dispatcher != nil {
		_ = s.dispatcher.Close(ctx)
	}
	s.queue.Close(ctx)
}

func countLines(ctx context.Context, q amboy.Queue, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		id, err := count.Put(ctx, q, countArgs{Text: lines.Text()})
		if err != nil {
			return err
		}
		result, err := count.Wait(ctx, q, id)
		var failed *job.NoResultError
		switch {
		case errors.As(err, &failed):
			_, _ = fmt.Fprintln(out, failed)
		case err != nil:
			return err
		default:
			_, _ = fmt.Fprintf(out, "%d words, counted by %s\n", result.Words, result.By)
		}
	}
	return lines.Err()
}
