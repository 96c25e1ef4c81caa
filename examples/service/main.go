// Service is a small multi-tenant web service that runs jobs: it issues invoices, mails them and
// closes the month of each tenant. Each file answers one question:
//
//	jobs.go    what are the jobs?
//	books.go   how do they get what they need, such as a database?
//	queues.go  where are they stored, when do they run, and how does that stop?
//	http.go    how do clients put, follow and cancel jobs?
//	admin.go   what do operators and tenants see?
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// closeTime is how long requests may continue after the signal, and jobs after that. Twice as long
// is less than the 30 seconds after which most platforms kill a process.
const closeTime = 14 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	address := flag.String("http", "localhost:0", "the address to listen on; port 0 means a free port")
	file := flag.String("db", "", "the file for the jobs (default: a temporary one, which is removed at the end)")
	flag.Parse()
	if err := run(ctx, *address, *file, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, file string, out io.Writer) error {
	if file == "" {
		dir, err := os.MkdirTemp("", "amboy-service-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file = filepath.Join(dir, "jobs.db")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // if serve did not
	books := newBooks()
	jobs, err := openQueues(context.WithoutCancel(ctx), file, books) // not ended by the signal, but by close
	if err != nil {
		return err
	}
	err = serve(ctx, listener, jobs, out)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return errors.Join(err, jobs.close(patience))
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, listener net.Listener, jobs *queues, out io.Writer) error {
	admin, err := newAdmin(jobs.group)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	admin.mount(mux)
	(&api{jobs: jobs.group, inspector: admin.inspector, authorize: admin.authorize}).mount(mux)
	err = admin.welcome(out, "http://"+listener.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err = server.Shutdown(patience)
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
