package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// closeTime is how long requests may take that are under way at the end.
const closeTime = time.Second

// serveDashboard serves the dashboard, and the API below it, to this machine alone, and
// says where, until end is called. An empty address serves nothing.
func serveDashboard(ctx context.Context, group amboy.QueueGroup, address string, out io.Writer) (end func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	inspector, err := management.NewGroupInspector(group)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("can't serve the dashboard: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Title("Host service"), rest.Authorize(rest.FromLoopback)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end = func() error {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		stopped := server.Shutdown(patience)
		if errors.Is(stopped, context.DeadlineExceeded) {
			stopped = server.Close() // a browser that watches is no reason to stay
		}
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			stopped = errors.Join(stopped, ended)
		}
		return stopped
	}
	_, err = fmt.Fprintf(out, "Dashboard: http://%s/jobs/\n", listener.Addr())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}
