package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	urfave "github.com/urfave/cli"

	"github.com/mongodb/amboy/cli"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

var importMail = job.Define("import-mail", 1, func(context.Context, string) error { return nil })

// Add the commands to the command line of a service.
func ExampleAmboy() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/amboy/remote/management/", http.StripPrefix("/amboy/remote/management",
		rest.NewManagementService(management.NewQueueManager(q)).Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	_, err := importMail.Put(ctx, q, "mail-1")
	must(err)

	opts := &cli.ServiceOptions{
		BaseURL:                       "http://localhost:2285",
		QueueManagementPrefix:         "/amboy/remote/management",
		AbortablePoolManagementPrefix: "/amboy/remote/pool",
	}
	command := cli.Amboy(opts)
	command.Flags = []urfave.Flag{urfave.StringFlag{Name: "token"}}
	command.Before = func(c *urfave.Context) error {
		opts.Client = &http.Client{Transport: bearer(c.String("token"))}
		return nil
	}
	app := urfave.NewApp()
	app.Name = "service"
	app.Writer = os.Stdout
	app.Commands = []urfave.Command{command}
	must(app.Run([]string{"service", "amboy", "--token", "x", "management", "status", "--url", server.URL}))
	fmt.Println(app.Run([]string{"service", "amboy", "management", "complete-jobs", "--filter", "new"}))
	// Output:
	// TYPE         GROUP  COUNT
	// import-mail  -      1
	// complete-jobs: invalid argument: filter must be one of ["pending" "in-progress" "stale" "completed" "retrying" "stale-retrying" "all"] (is "new")
}

// bearer sends a token with each request.
type bearer string

func (token bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}
