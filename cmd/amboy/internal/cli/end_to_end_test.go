package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// broken makes the jobs fail.
var broken atomic.Bool

var _ = job.Define("cli-letter", 1, func(_ context.Context, _ struct{ To string }) error {
	if broken.Load() {
		return errors.New("no\x1b[31m stamps")
	}
	return nil
})

// shell runs command lines against a real service.
type shell struct {
	t   *testing.T
	url string
}

// newShell starts a service with a driver-backed queue "mail".
func newShell(t *testing.T) shell {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	mail, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "mail", NumWorkers: 2, CloseDriver: true})
	require.NoError(t, err)
	require.NoError(t, mail.Start(t.Context()))
	t.Cleanup(func() { mail.Close(context.WithoutCancel(t.Context())) })
	inspector, err := management.NewInspector(mail)
	require.NoError(t, err)

	handler := rest.Handler(inspector, rest.CreateTypes("cli-letter", "no-such-type"), rest.Authorize(func(r *http.Request, _ rest.Access) error {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			return rest.ErrUnauthenticated
		}
		return nil
	}))
	server := httptest.NewServer(http.StripPrefix("/amboy", handler))
	t.Cleanup(server.Close)
	broken.Store(false)
	return shell{t, server.URL + "/amboy"}
}

func (s shell) runIn(ctx context.Context, change func(*cli.Env), args ...string) result {
	s.t.Helper()
	return runIn(ctx, nil, func(env *cli.Env) {
		env.Getenv = func(name string) string {
			return map[string]string{"AMBOY_URL": s.url, "AMBOY_TOKEN": "sesame"}[name]
		}
		env.Connect = cli.Dial
		change(env)
	}, args...)
}

// run runs a command line, requires its exit code, and returns its output.
func (s shell) run(code int, args ...string) string {
	s.t.Helper()
	got := s.runIn(s.t.Context(), func(*cli.Env) {}, args...)
	require.Equal(s.t, code, got.code, "%q: %s%s", args, got.out, got.errOut)
	return got.out
}

func TestEndToEndAJobThatFailed(t *testing.T) {
	s := newShell(t)
	broken.Store(true)
	s.run(0, "jobs", "create", "mail", "cli-letter", "--args", `{"To":"ada"}`, "--id", "to/ada ☂")
	s.run(7, "jobs", "watch", "mail", "to/ada ☂", "--every", "10ms")

	assert.Contains(t, s.run(0, "jobs", "list", "--state", "failed", "--error", "stamps"), `no\x1b[31m stamps`)
	assert.Contains(t, s.run(0, "jobs", "show", "mail", "to/ada ☂"), `"To": "ada"`)
	s.run(4, "jobs", "park", "mail", "to/ada ☂")
	assert.Equal(t, "would be retried: 1 (failed: 1); skipped: 0\n", s.run(0, "jobs", "retry", "--state", "failed", "--dry-run"))
	assert.Equal(t, "would be retried: 1 (failed: 1); skipped: 0\n", s.run(0, "jobs", "retry", "mail", "to/ada ☂", "--dry-run"))
	broken.Store(false)
	s.run(6, "jobs", "retry", "--state", "failed")
	assert.Equal(t, "retried: 1, skipped: 0\n", s.run(0, "jobs", "retry", "--state", "failed", "--yes"))
	s.run(0, "jobs", "watch", "mail", "to/ada ☂", "--every", "10ms")
	assert.Equal(t, "0\n", s.run(0, "jobs", "count", "--state", "failed"))
	assert.Equal(t, "deleted: 1, skipped: 0\n", s.run(0, "jobs", "delete", "mail", "to/ada ☂"))
	s.run(3, "jobs", "show", "mail", "to/ada ☂")
	s.run(3, "jobs", "delete", "mail", "to/ada ☂")
	s.run(3, "jobs", "delete", "mail", "to/ada ☂", "--dry-run")

	var audit management.AuditPage
	require.NoError(t, json.Unmarshal([]byte(s.run(0, "audit", "-o", "json")), &audit))
	var done []string
	for _, e := range audit.Entries {
		done = append(done, e.What)
	}
	assert.Subset(t, done, []string{"create", "retry", "delete"})
}

func TestEndToEndActions(t *testing.T) {
	s := newShell(t)
	assert.Equal(t, "mail: paused\n", s.run(0, "queues", "pause", "mail"))
	for _, id := range []string{"a", "b", "c"} {
		s.run(0, "jobs", "create", "mail", "cli-letter", "--args", "{}", "--id", id)
	}
	s.run(4, "jobs", "create", "mail", "cli-letter", "--args", "{}", "--id", "a")
	for _, args := range [][]string{
		{"park", "--reason", "wait"},
		{"release"},
		{"prioritize", "--priority", "7"},
		{"reschedule", "--at", "+1h"},
		{"retry"},
	} {
		s.run(0, append([]string{"jobs", args[0], "mail", "a"}, args[1:]...)...)
	}
	var page management.JobPage
	require.NoError(t, json.Unmarshal([]byte(s.run(0, "jobs", "list", "--all", "-o", "json")), &page))
	require.Len(t, page.Jobs, 3)
	for _, j := range page.Jobs {
		assert.Equal(t, amboy.StatePending, j.State, j.ID)
		assert.Equal(t, j.ID == "a", j.Priority == 7)
	}
	s.run(0, "jobs", "cancel", "mail", "b", "--reason", "not wanted")
	s.run(0, "jobs", "complete", "mail", "c")
	s.run(0, "jobs", "graph", "mail", "a")
	assert.Equal(t, "canceled: 1, skipped: 2\n", s.run(0, "jobs", "cancel", "--queue", "mail", "--limit", "50", "--yes"))
	assert.Equal(t, "deleted: 3, skipped: 0\n", s.run(0, "jobs", "delete", "--all", "--yes"))
	assert.Equal(t, "mail: paused, draining\n", s.run(0, "queues", "drain", "mail"))
	assert.Equal(t, "mail: paused, draining, max-running 3, workers 1\n",
		s.run(0, "queues", "set", "mail", "--max-running", "3", "--workers", "1"))
	s.run(4, "jobs", "create", "mail", "cli-letter", "--args", "{}")
	assert.Equal(t, "mail: max-running 3, workers 1\n", s.run(0, "queues", "resume", "mail"))
}

func TestEndToEndLists(t *testing.T) {
	s := newShell(t)
	s.run(0, "jobs", "create", "mail", "cli-letter", "--args", "{}", "--id", "a")
	s.run(0, "jobs", "watch", "mail", "a", "--every", "10ms")
	for _, args := range []string{"queues list", "queues show mail", "jobs list", "scopes", "processes", "schedules", "activity --last 5m", "audit"} {
		s.run(0, strings.Fields(args)...)
		var document any
		require.NoError(t, json.Unmarshal([]byte(s.run(0, append(strings.Fields(args), "-o", "json")...)), &document), args)
	}
	assert.Contains(t, s.run(0, "__complete", "queues", "pause", ""), "mail\n")
	assert.Contains(t, s.run(0, "__complete", "jobs", "list", "--type", ""), "cli-letter\n")
	assert.Contains(t, s.run(0, "__complete", "jobs", "create", "mail", ""), "cli-letter\n")
}

func TestEndToEndRefusals(t *testing.T) {
	s := newShell(t)
	s.run(3, "queues", "show", "none")
	s.run(2, "jobs", "list", "--cursor", "none")
	s.run(2, "queues", "set", "mail", "--max-running", "-1")
	s.run(2, "jobs", "create", "mail", "no-such-type")
	s.run(2, "activity", "--last", "100d")
	s.run(5, "queues", "list", "--token", "other")
	s.run(5, "queues", "pause", "mail", "--token", "other")
	s.run(5, "queues", "watch", "--token", "other")
	s.run(1, "queues", "list", "--url", strings.TrimSuffix(s.url, "/amboy"))
}

func TestARefusedTokenIsNotNamedAsTheCause(t *testing.T) {
	s := newShell(t)
	wrong := s.runIn(t.Context(), func(*cli.Env) {}, "queues", "list", "--token", "other")
	assert.Equal(t, result{errOut: "amboy: the token was refused: it is wrong or has expired (GET " + s.url + "/v2/queues?limit=50: 401 Unauthorized)\n", code: 5}, wrong)
	none := s.runIn(t.Context(), func(env *cli.Env) { env.Getenv = func(string) string { return "" } }, "queues", "list", "--url", s.url)
	assert.Equal(t, result{errOut: "amboy: the service needs a token: set AMBOY_TOKEN, or add --token-file (GET " + s.url + "/v2/queues?limit=50: 401 Unauthorized)\n", code: 5}, none)
}

// interrupting calls interrupt when it is written to.
type interrupting struct {
	strings.Builder
	interrupt func()
}

func (i *interrupting) Write(text []byte) (int, error) {
	i.interrupt()
	return i.Builder.Write(text)
}

func TestEndToEndWatch(t *testing.T) {
	s := newShell(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &interrupting{interrupt: interrupt}
	got := s.runIn(ctx, func(env *cli.Env) { env.Stdout = io.Writer(out) }, "queues", "watch")
	assert.Equal(t, result{}, got, "no error and exit code 0")
	assert.Contains(t, out.String(), "mail")
}

// The handler is below /amboy, and the URL was given without that.
func TestAURLWithoutTheHandlerIsExplained(t *testing.T) {
	const hint = "is --url or AMBOY_URL the URL at which the service mounts rest.Handler?"
	s := newShell(t)
	missing := s.runIn(t.Context(), func(*cli.Env) {}, "jobs", "show", "mail", "nobody")
	assert.Equal(t, 3, missing.code)
	assert.NotContains(t, missing.errOut, hint)

	s.url = strings.TrimSuffix(s.url, "/amboy")
	wrong := s.runIn(t.Context(), func(*cli.Env) {}, "queues", "list")
	assert.Equal(t, 1, wrong.code)
	assert.Contains(t, wrong.errOut, hint)
}
