package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	urfave "github.com/urfave/cli"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cli"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest"
)

const (
	managementPrefix = "/amboy/remote/management"
	poolPrefix       = "/amboy/remote/pool"
)

// began receives a value when a holding job has begun.
var began = make(chan struct{})

// task is a job that, if it holds, runs until its context ends.
type task struct {
	job.Base `bson:"job_base" json:"job_base"`
	Hold     bool `bson:"hold" json:"hold"`
}

func newTask(id, jobType string) *task {
	j := &task{}
	j.SetID(id)
	j.JobType = amboy.JobType{Name: jobType, Version: 1}
	return j
}

func init() {
	for _, name := range []string{"import", "export"} {
		registry.AddJobType(name, func() amboy.Job { return newTask("", name) })
	}
}

func (j *task) Run(ctx context.Context) {
	defer j.MarkComplete()
	if j.Hold {
		began <- struct{}{}
		<-ctx.Done()
	}
}

// service is the server of a service. Its queue contains the pending jobs "a/1" and "a/2"
// of type import and "b 1" of type export, and can run other jobs.
type service struct {
	queue amboy.Queue
	opts  *cli.ServiceOptions
}

func newService(t *testing.T) *service {
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	require.NoError(t, err)
	runner := pool.NewAbortablePool(2, q)
	require.NoError(t, q.SetRunner(runner))
	require.NoError(t, q.Start(t.Context()))
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		q.Close(ended)
	})
	for _, j := range []*task{newTask("a/1", "import"), newTask("a/2", "import"), newTask("b 1", "export")} {
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		require.NoError(t, q.Put(t.Context(), j))
	}

	mux := http.NewServeMux()
	mount := func(prefix string, handler http.Handler) {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, handler))
	}
	mount(managementPrefix, rest.NewManagementService(management.NewQueueManager(q)).Handler())
	mount(poolPrefix, rest.NewAbortablePoolManagementService(runner).Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &service{queue: q, opts: &cli.ServiceOptions{
		BaseURL:                       server.URL,
		QueueManagementPrefix:         managementPrefix,
		AbortablePoolManagementPrefix: poolPrefix,
	}}
}

// run runs an App with the command, and returns its output.
func run(command urfave.Command, args ...string) (output string, err error) {
	var out bytes.Buffer
	app := urfave.NewApp()
	app.Name = "service"
	app.Writer = &out
	app.Commands = []urfave.Command{command}
	err = app.Run(append([]string{"service", "amboy"}, args...))
	return out.String(), err
}

// mustRun runs a command that must succeed.
func (s *service) mustRun(t *testing.T, line string) string {
	t.Helper()
	output, err := run(cli.Amboy(s.opts), strings.Split(line, "|")...)
	require.NoError(t, err, output)
	return output
}

func (s *service) pending(t *testing.T) int { return s.queue.Stats(t.Context()).Pending }

func TestManagementStatus(t *testing.T) {
	s := newService(t)
	want := "TYPE    GROUP  COUNT\nexport  -      1\nimport  -      2\n"
	assert.Equal(t, want, s.mustRun(t, "management|status"))
	assert.Equal(t, want, s.mustRun(t, "management|status|--filter|pending"))
	assert.Equal(t, "TYPE  GROUP  COUNT\n", s.mustRun(t, "management|status|--filter|completed"))
}

func TestManagementJobs(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.queue.Put(t.Context(), newTask("\x1b[2J", "import")))
	require.True(t, amboy.WaitJob(t.Context(), newTask("\x1b[2J", "import"), s.queue))
	assert.Equal(t, "ID   GROUP\na/1  -\na/2  -\n", s.mustRun(t, "management|jobs|--type|import|--filter|pending"))
	assert.Equal(t, "ID       GROUP\n\\x1b[2J  -\n", s.mustRun(t, "management|jobs|--type|import|--filter|completed"))
}

func TestManagementCompleteJob(t *testing.T) {
	s := newService(t)
	assert.Equal(t, "marked job \"a/1\" complete\n", s.mustRun(t, "management|complete-job|--id|a/1"))
	assert.Equal(t, "marked job \"b 1\" complete\n", s.mustRun(t, "management|complete-job|--name|b 1"))
	assert.Equal(t, 1, s.pending(t))

	_, err := run(cli.Amboy(s.opts), "management", "complete-job", "--id", "nobody")
	require.ErrorContains(t, err, `complete-job: `)
	assert.True(t, amboy.IsJobNotFoundError(err))
}

func TestManagementCompleteJobs(t *testing.T) {
	s := newService(t)
	assert.Equal(t, "marked jobs complete: in-progress\n", s.mustRun(t, "management|complete-jobs|--filter|in-progress"))
	assert.Equal(t, 3, s.pending(t))
	assert.Equal(t, "marked jobs complete: pending\n", s.mustRun(t, "management|complete-jobs|--filter|pending"))
	assert.Equal(t, 0, s.pending(t))
}

func TestManagementCompleteJobsByType(t *testing.T) {
	s := newService(t)
	assert.Equal(t, "marked jobs of type \"import\" complete: pending\n", s.mustRun(t, "management|complete-jobs-by-type|--type|import|--filter|pending"))
	assert.Equal(t, 1, s.pending(t))
}

func TestManagementCompleteJobsByPattern(t *testing.T) {
	s := newService(t)
	assert.Equal(t, "marked jobs matching \"a.*\" complete: all\n", s.mustRun(t, "management|complete-jobs-by-pattern|--pattern|a.*|--filter|all"))
	assert.Equal(t, 1, s.pending(t))
}

// hold puts a job that runs until it is aborted.
func (s *service) hold(t *testing.T, id string) {
	j := newTask(id, "import")
	j.Hold = true
	require.NoError(t, s.queue.Put(t.Context(), j))
	<-began
}

func TestAbortablePoolManagement(t *testing.T) {
	s := newService(t)
	assert.Equal(t, "ID\n", s.mustRun(t, "abortable_pool_management|list"))
	s.hold(t, "h/1")
	assert.Equal(t, "ID\nh/1\n", s.mustRun(t, "abortable_pool_management|list"))
	assert.Equal(t, "job \"h/1\" is running\n", s.mustRun(t, "abortable_pool_management|check|--id|h/1"))
	assert.Equal(t, "aborted job \"h/1\"\n", s.mustRun(t, "abortable_pool_management|abort|--name|h/1"))
	assert.Equal(t, "job \"h/1\" is not running\n", s.mustRun(t, "abortable_pool_management|check|--id|h/1"))
	_, err := run(cli.Amboy(s.opts), "abortable_pool_management", "abort", "--id", "h/1")
	assert.True(t, amboy.IsJobNotFoundError(err), err)

	s.hold(t, "h/2")
	assert.Equal(t, "aborted all running jobs\n", s.mustRun(t, "abortable_pool_management|abort-all"))
	assert.Equal(t, "ID\n", s.mustRun(t, "abortable_pool_management|list"))
}

func TestOptionsAreReadWhenACommandRuns(t *testing.T) {
	s := newService(t)
	requests := 0
	command := cli.Amboy(s.opts)
	command.Flags = []urfave.Flag{urfave.StringFlag{Name: "conf"}}
	command.Before = func(c *urfave.Context) error {
		assert.Equal(t, "service.yaml", c.String("conf"))
		s.opts.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			return http.DefaultTransport.RoundTrip(r)
		})}
		return nil
	}
	_, err := run(command, "--conf", "service.yaml", "management", "status")
	require.NoError(t, err)
	_, err = run(command, "--conf", "service.yaml", "abortable_pool_management", "list")
	require.NoError(t, err)
	assert.Equal(t, 2, requests)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestFlagsOverrideOptions(t *testing.T) {
	s := newService(t)
	elsewhere := &cli.ServiceOptions{BaseURL: "http://localhost:0", QueueManagementPrefix: "/x", AbortablePoolManagementPrefix: "/y"}
	for _, opts := range []*cli.ServiceOptions{nil, elsewhere} {
		output, err := run(cli.Amboy(opts), "management", "status", "--url", s.opts.BaseURL+"/", "--prefix", managementPrefix+"/")
		require.NoError(t, err)
		assert.Contains(t, output, "import")
		output, err = run(cli.Amboy(opts), "abortable_pool_management", "list", "--url", s.opts.BaseURL, "--prefix", poolPrefix)
		require.NoError(t, err)
		assert.Equal(t, "ID\n", output)
	}
}

func TestInvalidArgumentsChangeNothing(t *testing.T) {
	s := newService(t)
	s.hold(t, "held")
	for line, want := range map[string]string{
		"management|status|--filter|new":                               "status: invalid argument: filter must be one of",
		"management|status|pending":                                    `status: unexpected argument "pending"`,
		"management|status|--url|localhost:80":                         `status: --url must begin with http:// or https:// and a host (is "localhost:80")`,
		"management|status|--url|http://user:secret@":                  "status: --url must begin",
		"management|status|--url|http://user:secret@%":                 "status: --url must be a URL",
		"management|status|--prefix|/elsewhere":                        "404 Not Found",
		"management|jobs":                                              "jobs: --type must not be empty",
		"management|complete-job":                                      "complete-job: --id must not be empty",
		"management|complete-job|a/1":                                  `complete-job: unexpected argument "a/1"`,
		"management|complete-jobs":                                     "complete-jobs: --filter must not be empty",
		"management|complete-jobs|--filter|":                           "complete-jobs: --filter must not be empty",
		"management|complete-jobs|pending":                             `complete-jobs: unexpected argument "pending"`,
		"management|complete-jobs-by-type|--filter|all":                "complete-jobs-by-type: --type must not be empty",
		"management|complete-jobs-by-type|--type|import":               "complete-jobs-by-type: --filter must not be empty",
		"management|complete-jobs-by-pattern|--filter|all":             "complete-jobs-by-pattern: --pattern must not be empty",
		"management|complete-jobs-by-pattern|--pattern|.*":             "complete-jobs-by-pattern: --filter must not be empty",
		"management|complete-jobs-by-pattern|--pattern|(|--filter|all": "complete-jobs-by-pattern: ",
		"abortable_pool_management|check":                              "check: --id must not be empty",
		"abortable_pool_management|abort":                              "abort: --id must not be empty",
		"abortable_pool_management|abort|held":                         `abort: unexpected argument "held"`,
		"abortable_pool_management|abort-all|held":                     `abort-all: unexpected argument "held"`,
		"abortable_pool_management|list|--ids":                         "flag provided but not defined: -ids",
	} {
		t.Run(line, func(t *testing.T) {
			_, err := run(cli.Amboy(s.opts), strings.Split(line, "|")...)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
	assert.Equal(t, 3, s.pending(t))
	assert.True(t, s.queue.Runner().(amboy.AbortableRunner).IsRunning("held"))
}
