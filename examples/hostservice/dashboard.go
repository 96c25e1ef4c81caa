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
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/rest"
)

// closeTime is how long requests may continue after the end.
const closeTime = time.Second

// shownQueues is the number of tenants that the metrics show by name.
const shownQueues = 20

// dashboard configures the dashboard.
type dashboard struct {
	address   string // empty for no dashboard
	tokenFile string // receives a token for programs; empty for none
}

// serve serves the dashboard and its API to the user who started the service, and prints a
// link that can be used once to log in. It serves until end is called.
func (d dashboard) serve(ctx context.Context, group amboy.QueueGroup, out io.Writer) (end func() error, err error) {
	if d.address == "" {
		return func() error { return nil }, nil
	}
	inspector, err := management.NewGroupInspector(group)
	if err != nil {
		return nil, err
	}
	// Other users of the machine can connect too, so the address must not grant access.
	login := rest.NewLogin("/jobs")
	if d.tokenFile != "" {
		err = writeToken(d.tokenFile, login.Token())
		if err != nil {
			return nil, err
		}
	}
	metrics, err := promamboy.Handler(inspector, promamboy.Options{Queues: shownQueues})
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return nil, fmt.Errorf("can't serve the dashboard: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/jobs/login", login)
	mux.Handle("/jobs/metrics", onlyFor(login, metrics)) // which names tenants
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Title("Host service"), rest.Authorize(login.Authorize)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end = func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		stopped := server.Shutdown(stopping)
		if errors.Is(stopped, context.DeadlineExceeded) {
			stopped = server.Close() // do not wait for watching browsers
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

// onlyFor serves requests that a Login authorizes.
func onlyFor(login *rest.Login, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := login.Authorize(r, rest.Access{Action: rest.ActionRead, AllQueues: true}); err != nil {
			rest.RefuseUnauthenticated(w, r, err.Error())
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// writeToken writes a token to a file that only this user can read. It replaces an existing
// file.
func writeToken(file, token string) error {
	made, err := os.CreateTemp(filepath.Dir(file), ".token-") // created with mode 0600
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
