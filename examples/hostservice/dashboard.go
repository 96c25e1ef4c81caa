package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// closeTime is how long requests may take that are under way at the end.
const closeTime = time.Second

// dashboard is where the dashboard is served.
type dashboard struct {
	address   string // empty for nowhere
	tokenFile string // gets a token for programs; empty for none
}

// serve serves the dashboard, and the API below it, to the user who has started the
// service, and prints a link that logs in, once. It ends when end is called.
func (d dashboard) serve(ctx context.Context, group amboy.QueueGroup, out io.Writer) (end func() error, err error) {
	if d.address == "" {
		return func() error { return nil }, nil
	}
	inspector, err := management.NewGroupInspector(group)
	if err != nil {
		return nil, err
	}
	// Other users of the machine can connect as well: the address is no reason to let
	// anybody in.
	login := rest.NewLogin("/jobs")
	if d.tokenFile != "" {
		err = writeToken(d.tokenFile, login.Token())
		if err != nil {
			return nil, err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return nil, fmt.Errorf("can't serve the dashboard: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/jobs/login", login)
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Title("Host service"), rest.Authorize(login.Authorize)))
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
	_, err = fmt.Fprintf(out, "Dashboard: http://%s/jobs/login?ticket=%s (works once)\n", listener.Addr(), login.Ticket())
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// writeToken writes a token to a file that only this user can read, in place of one that
// is there.
func writeToken(file, token string) error {
	made, err := os.CreateTemp(filepath.Dir(file), ".token-") // which nobody else can read
	if err != nil {
		return fmt.Errorf("can't write the token file %s: %w", file, err)
	}
	_, err = fmt.Fprintln(made, token)
	err = errors.Join(err, made.Close())
	if err == nil {
		err = os.Rename(made.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("can't write the token file %s: %w", file, err), os.Remove(made.Name()))
	}
	return nil
}
