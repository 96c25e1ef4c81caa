// Package serve is the server of amboy serve: the API and the dashboard of a store, and the
// ports for the clients of other systems. docs/guides/run-a-server.md is its manual.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/workq"
)

// stopTime is how long requests may continue after the end.
const stopTime = 10 * time.Second

const (
	// maxConnections is the maximum number of open connections of the HTTP server, and of requests that wait.
	maxConnections = 40_000
	// maxOfClient is how many of the connections a client of another machine may have, and how many requests
	// that wait each client may have. All workers behind a proxy are one client. Requests that wait with a named
	// token are of a client for that token.
	maxOfClient = maxConnections / 4
)

// Run serves until ctx ends. It prints its addresses, and commands to begin with. It returns an error if it
// can't serve, or can't stop in time.
func Run(ctx context.Context, c Config, out io.Writer) (err error) {
	fromFile, err := c.readFile()
	if err != nil {
		return err
	}
	c.fill(fromFile)
	err = c.setDefaults()
	if err != nil {
		return err
	}
	s := &server{Config: c, fromFile: fromFile, ended: make(chan error, 1)}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, s.stop(stopping))
	}()
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	reloading, err := s.start(ctx, out)
	if err == nil {
		err = s.describe(out)
	}
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		reloading.run(running, hangUp)
	}()
	select {
	case <-ctx.Done():
	case err = <-s.ended:
	}
	stop()
	<-reloaded
	return err
}

// server is a running server.
type server struct {
	Config
	fromFile    Config // what the configuration file says
	store       driver.Driver
	storeName   string
	certificate atomic.Pointer[tls.Certificate] // nil without TLS
	pinlater    *pinlater.Server                // nil if it is not served
	group       amboy.QueueGroup
	dispatcher  *outside.Dispatcher
	schedules   *management.ScheduleRunner
	access      *access
	// ports are what was started, in that order. ended has room for one error: that of the
	// first port that ended by itself.
	ports []port
	ended chan error
	// listeners are those of the ports that have not been started, by their flags.
	listeners map[string]net.Listener
}

// port is a started server of a protocol.
type port struct {
	name, address string
	// stop stops it, and waits for its goroutines until ctx ends.
	stop func(ctx context.Context) error
}

// start opens the store and starts the ports. Nothing is written if an address can't be used.
func (s *server) start(ctx context.Context, out io.Writer) (r *reloading, err error) {
	err = s.listen(ctx)
	if err != nil {
		return nil, err
	}
	s.store, s.storeName, err = s.openStore(ctx, out)
	if err != nil {
		return nil, err
	}
	s.group, err = queue.NewDriverGroup(context.WithoutCancel(ctx), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{
			Driver: s.store, CloseDriver: true,
			NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil }, // workers are outside
		},
		TTL: time.Hour,
	})
	if err != nil {
		return nil, errors.Join(err, s.store.Close(ctx))
	}
	s.dispatcher, err = outside.NewGroup(s.group, outside.Options{MaxWaiting: maxConnections})
	if err != nil {
		return nil, err
	}
	err = makeToken(s.TokenFile)
	if err != nil {
		return nil, err
	}
	s.access = newAccess()
	if s.Pinlater != "" {
		s.pinlater, err = pinlater.New(s.group, s.dispatcher, pinlater.Options{ //nolint:contextcheck // Close ends its goroutines.
			AllowRemote: isSet(s.PinlaterRemote), QueueConfigFile: s.PinlaterQueues, ServerSetFile: s.PinlaterServers,
			AdminPasswordHash: s.PinlaterAdminPasswordHash, PriorityLevels: s.PinlaterPriorityLevels,
			ClaimTimeout:  time.Duration(s.PinlaterClaimTimeout),
			KeepSucceeded: time.Duration(s.PinlaterKeepSucceeded), KeepFailed: time.Duration(s.PinlaterKeepFailed),
		})
		if err != nil {
			return nil, err
		}
	}
	r, err = s.newReloading(ctx, out)
	if err == nil {
		err = s.startHTTP()
	}
	if err == nil {
		err = s.schedules.Start(context.WithoutCancel(ctx)) // until stop
	}
	if err == nil && s.Workq != "" {
		err = s.startWorkq() //nolint:contextcheck // Close ends its goroutines.
	}
	if err == nil && s.pinlater != nil {
		s.begin("PinLater", s.take("--pinlater"), s.pinlater.Serve, s.pinlater.Close)
	}
	return r, err
}

// listen listens on the addresses of all ports.
func (s *server) listen(ctx context.Context) error {
	s.listeners = map[string]net.Listener{}
	for _, at := range []struct {
		flag, address string
		isPublic      bool // whether other machines may reach it
	}{
		{"--listen", s.Listen, true},
		{"--workq", s.Workq, isSet(s.WorkqRemote)},
		{"--pinlater", s.Pinlater, isSet(s.PinlaterRemote)},
	} {
		if at.address == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.address)
		if err != nil {
			return fmt.Errorf("can't listen; choose another address with %s: %w", at.flag, err)
		}
		s.listeners[at.flag] = l
		if !at.isPublic && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			return fmt.Errorf("%s is %s, which other machines can reach, and its protocol has no login; %s-remote allows it", at.flag, at.address, at.flag)
		}
	}
	return nil
}

// take returns the listener of a flag to start its port.
func (s *server) take(flag string) net.Listener {
	l := s.listeners[flag]
	delete(s.listeners, flag)
	return l
}

// begin runs a port in the background, and adds it.
func (s *server) begin(name string, l net.Listener, serve func(net.Listener) error, stop func(context.Context) error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := serve(l)
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, workq.ErrClosed) || errors.Is(err, pinlater.ErrClosed) {
			return
		}
		select {
		case s.ended <- err:
		default: // another port has ended before
		}
	}()
	s.ports = append(s.ports, port{name: name, address: hostPort(l.Addr()), stop: func(ctx context.Context) error {
		err := stop(ctx)
		<-done
		return err
	}})
}

func (s *server) startHTTP() error {
	inspector, err := management.NewGroupInspector(s.group)
	if err != nil {
		return err
	}
	s.schedules, err = management.NewScheduleRunner(inspector)
	if err != nil {
		return err
	}
	metrics, err := promamboy.Handler(inspector, promamboy.Options{})
	if err != nil {
		return err
	}
	l := connserver.Limit(s.take("--listen"), maxConnections, maxOfClient)
	s.access.scheme, s.access.host = "http", hostPort(l.Addr())
	if s.TLSCert != "" {
		s.access.scheme = "https"
	}
	health := rest.Health(inspector)
	mux := http.NewServeMux()
	mux.Handle("/live", health)
	mux.Handle("/ready", health)
	mux.Handle("/metrics", s.access.forMetrics(metrics))
	mux.Handle("/login", s.access.login)
	mux.HandleFunc("POST /login/link", s.access.serveLink)
	mux.Handle("/", s.access.limitStrangers(rest.Handler(inspector,
		rest.Workers(s.dispatcher), rest.WaitingOfClient(maxOfClient), rest.CreateOutside(), rest.Authorize(s.access.authorize), rest.Actor(s.access.actor))))
	web := &http.Server{
		Handler: mux, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: min(10*time.Second, s.ClientTime), ReadTimeout: s.ClientTime, WriteTimeout: s.ClientTime, IdleTimeout: 2 * time.Minute,
	}
	serve := web.Serve
	if s.TLSCert != "" {
		web.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate.Load(), nil
		}}
		serve = func(l net.Listener) error { return web.ServeTLS(l, "", "") }
	}
	s.begin("HTTP", l, func(l net.Listener) error { return fmt.Errorf("serving HTTP: %w", serve(l)) }, func(ctx context.Context) error {
		err := web.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return web.Close()
		}
		return err
	})
	return nil
}

func (s *server) startWorkq() error {
	server, err := workq.New(s.group, s.dispatcher, workq.Options{AllowRemote: isSet(s.WorkqRemote), RetryFails: isSet(s.WorkqRetryFails)})
	if err != nil {
		return err
	}
	s.begin("workq", s.take("--workq"), server.Serve, server.Close)
	return nil
}

// stop stops what was started. Clients get their answers first.
func (s *server) stop(ctx context.Context) (err error) {
	// Clients that do not read their answers must not use up the time of the store.
	soon, cancel := context.WithTimeout(ctx, stopTime/2)
	defer cancel()
	errs := make([]error, len(s.ports))
	var stopping sync.WaitGroup
	for i, p := range s.ports {
		stopping.Go(func() { errs[i] = p.stop(soon) })
	}
	stopping.Wait()
	err = errors.Join(errs...)
	for _, l := range s.listeners { // the start has failed
		err = errors.Join(err, l.Close())
	}
	if s.pinlater != nil {
		// It has goroutines before its port. The time for clients may be over, although it has stopped.
		err = errors.Join(err, s.pinlater.Close(ctx))
	}
	if s.schedules != nil {
		s.schedules.Close(ctx)
	}
	if s.dispatcher != nil {
		err = errors.Join(err, s.dispatcher.Close(ctx))
	}
	if s.group != nil {
		err = errors.Join(err, s.group.Close(ctx))
	}
	return err
}

// hostPort returns the address at which clients on this machine reach a listener.
func hostPort(a net.Addr) string {
	if tcp := a.(*net.TCPAddr); tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return a.String()
}

// describe prints the addresses of the server, and commands to begin with.
func (s *server) describe(out io.Writer) error {
	var ports strings.Builder
	for _, p := range s.ports[1:] {
		_, _ = fmt.Fprintf(&ports, "  %-10s %s\n", p.name, p.address)
	}
	_, err := fmt.Fprintf(out, `Serving the jobs in %[1]s

  Dashboard  %[2]s  (works once)
  API        %[3]s/v2
  Token      in %[4]s
  Health     %[3]s/live and /ready
  Metrics    %[3]s/metrics  (with the token)
%[5]s
In another terminal:

  export AMBOY_URL=%[3]s AMBOY_TOKEN="$(cat '%[4]s')"
  curl -H "Authorization: Bearer $AMBOY_TOKEN" --json '{"type": "greet", "outside": true, "args": {"name": "Ann"}}' "$AMBOY_URL/v2/queues/hello/jobs"
  lease=$(curl -s -H "Authorization: Bearer $AMBOY_TOKEN" --json '{"queues": ["hello"], "types": ["greet"]}' "$AMBOY_URL/v2/leases" | grep -o '"token":"[^"]*"')
  curl -H "Authorization: Bearer $AMBOY_TOKEN" --json "{\"acknowledge\": [{$lease, \"complete\": {\"result\": \"hello, Ann\"}}]}" "$AMBOY_URL/v2/leases/acknowledge"
  curl -H "Authorization: Bearer $AMBOY_TOKEN" -X POST "$AMBOY_URL/login/link"   # another link to the dashboard

Press Ctrl-C to stop.
`, s.storeName, s.access.link(s.access.host, s.access.main()), s.access.url(), s.TokenFile, ports.String())
	return err
}
