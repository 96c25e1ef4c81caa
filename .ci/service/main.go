// Command fleet is a service in the style of services that use the legacy Amboy. It
// provisions the hosts of several regions. .ci/run copies it out of the repository, adds
// one replace line, and tidies, builds and tests it.
package main

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	amboycli "github.com/mongodb/amboy/cli"
	"github.com/mongodb/grip"
	"github.com/pkg/errors"
	"github.com/urfave/cli"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newApp(ctx).Run(os.Args)
	cancel()
	if err != nil {
		grip.Error(context.Background(), err)
		os.Exit(1)
	}
}

func newApp(ctx context.Context) *cli.App {
	app := cli.NewApp()
	app.Name = "fleet"
	app.Usage = "provision hosts"
	app.Commands = []cli.Command{serviceCommand(ctx), amboyCommand()}
	return app
}

func serviceCommand(ctx context.Context) cli.Command {
	return cli.Command{
		Name:  "service",
		Usage: "run the queues and the HTTP server",
		Flags: []cli.Flag{
			cli.StringFlag{Name: "addr", Value: "localhost:2285"},
			cli.StringFlag{Name: "mongodb", Usage: "URI; without it, jobs are in memory"},
			cli.StringFlag{Name: "db", Value: "fleet"},
		},
		Action: func(c *cli.Context) error {
			return serve(ctx, c.String("addr"), Settings{MongoDBURI: c.String("mongodb"), DB: c.String("db")})
		},
	}
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, addr string, settings Settings) error {
	env, err := NewEnvironment(ctx, settings)
	if err != nil {
		return errors.Wrap(err, "creating the environment")
	}
	SetEnvironment(env)
	startCrons(ctx, env, Crons{Stats: time.Minute, Provision: 15 * time.Minute})

	server := &http.Server{Addr: addr, Handler: env.Routes(), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = nil
	}
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	grip.Error(closing, errors.Wrap(server.Shutdown(closing), "stopping the server"))
	grip.Error(closing, errors.Wrap(env.Close(closing), "closing the environment"))
	return errors.Wrap(err, "serving")
}

// amboyCommand is the command line of the queues of a running service.
func amboyCommand() cli.Command {
	opts := &amboycli.ServiceOptions{
		BaseURL:                       "http://localhost:2285",
		QueueManagementPrefix:         remoteManagementPrefix,
		AbortablePoolManagementPrefix: remotePoolPrefix,
	}
	cmd := amboycli.Amboy(opts)
	cmd.Flags = append(cmd.Flags, cli.StringFlag{Name: "token", EnvVar: "FLEET_TOKEN"})
	cmd.Before = func(c *cli.Context) error {
		opts.Client = &http.Client{Transport: bearer(c.String("token")), Timeout: time.Minute}
		return nil
	}
	return cmd
}

// bearer is a transport that sends a token.
type bearer string

func (token bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}
