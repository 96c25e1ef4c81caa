package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/management"
)

// result is the output and the exit code of a command line.
type result struct {
	out, errOut string
	code        int
}

// run runs a command line.
func run(t *testing.T, inspector management.Inspector, args ...string) result {
	t.Helper()
	return runIn(t.Context(), inspector, func(*cli.Env) {}, args...)
}

// runIn runs a command line in an environment that a function changes.
func runIn(ctx context.Context, inspector management.Inspector, change func(*cli.Env), args ...string) result {
	var out, errOut bytes.Buffer
	env := environment(inspector, &out, &errOut)
	change(&env)
	code := cli.Run(ctx, env, args)
	return result{out.String(), errOut.String(), code}
}

func TestExitCodes(t *testing.T) {
	ref := management.JobRef{Queue: "mail", ID: "a"}
	for _, c := range []struct {
		err  error
		code int
	}{
		{io.ErrUnexpectedEOF, 1},
		{refusal(http.StatusInternalServerError), 1},
		{refusal(http.StatusNotFound), 1}, // no API at this URL
		{&management.InvalidArgumentError{Field: "cursor", Rule: "must be one"}, 2},
		{errors.Join(&management.InvalidArgumentError{Field: "a"}, &management.InvalidArgumentError{Field: "b"}), 2},
		{amboy.NewJobNotFoundError("no job"), 3},
		{fmt.Errorf("%w: mail", management.ErrUnknownQueue), 3},
		{&management.StateError{Job: ref, State: amboy.StateRunning, Action: management.Park, Rule: "needs another state"}, 4},
		{amboy.NewDuplicateJobError("there is one"), 4},
		{amboy.NewDuplicateJobScopeError("it is held"), 4},
		{fmt.Errorf("putting: %w", amboy.ErrQueueDraining), 4},
		{refusal(http.StatusUnauthorized), 5},
		{refusal(http.StatusForbidden), 5},
		{context.Canceled, 130},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.err), func(t *testing.T) {
			service := newFake()
			service.err = c.err
			for _, args := range [][]string{
				{"queues", "list"},
				{"queues", "pause", "mail"},
				{"jobs", "list"},
				{"jobs", "count"},
				{"jobs", "show", "mail", "digest"},
				{"jobs", "watch", "mail", "digest"},
				{"jobs", "graph", "mail", "digest"},
				{"jobs", "create", "mail", "send"},
				{"jobs", "retry", "mail", "digest"},
				{"jobs", "retry", "--all", "--yes"},
				{"scopes"},
				{"processes"},
				{"schedules"},
				{"activity"},
				{"audit"},
			} {
				got := run(t, service, args...)
				assert.Equal(t, c.code, got.code, "%s: %s", args, got.errOut)
				assert.Empty(t, got.out, args)
				assert.Regexp(t, `^amboy: [^\n]+\n$`, got.errOut, args)
			}
		})
	}
}

func TestMissingURLIsAUsageError(t *testing.T) {
	noURL := func(env *cli.Env) { env.Getenv = func(string) string { return "" } }
	got := runIn(t.Context(), newFake(), noURL, "queues", "list")
	assert.Equal(t, result{errOut: "amboy: the URL of the service is missing: set AMBOY_URL, or add --url\n", code: 2}, got)
}

func TestInvalidURLIsAUsageError(t *testing.T) {
	for _, url := range []string{"jobs.example", "ftp://jobs.example", "http://", "http://jobs.example?a=b", "http://user:secret@jobs.example/\x7f"} {
		got := runIn(t.Context(), nil, func(env *cli.Env) { env.Connect = cli.Dial }, "queues", "list", "--url", url)
		assert.Equal(t, 2, got.code, url)
		assert.Regexp(t, `^amboy: [^\n]+\n$`, got.errOut, url)
		assert.NotContains(t, got.errOut, "secret")
	}
}

func TestUnreachableServiceIsAFailure(t *testing.T) {
	got := runIn(t.Context(), nil, func(env *cli.Env) { env.Connect = cli.Dial }, "queues", "list", "--url", "http://127.0.0.1:1")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.errOut, "connection refused")
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	for _, c := range []struct {
		name, variable string
		args           []string
		want           string
	}{
		{"none", "", nil, ""},
		{"variable", "from-env", nil, "from-env"},
		{"flag", "from-env", []string{"--token", "from-flag"}, "from-flag"},
		{"file", "from-env", []string{"--token-file", file}, "from-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var service cli.Service
			got := runIn(t.Context(), newFake(), func(env *cli.Env) {
				env.Getenv = func(name string) string {
					return map[string]string{"AMBOY_URL": "http://jobs.example", "AMBOY_TOKEN": c.variable}[name]
				}
				env.Connect = func(s cli.Service) (management.Inspector, error) {
					service = s
					return newFake(), nil
				}
			}, append([]string{"queues", "list"}, c.args...)...)
			assert.Zero(t, got.code, got.errOut)
			assert.Equal(t, c.want, service.Token)
		})
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	const secret = "s3cret"
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"+secret), 0o600))
	for _, args := range [][]string{
		{"--help"},
		{"queues", "list", "--help"},
		{"queues", "list", "--url", "http://127.0.0.1:1"},
		{"queues", "list", "--token", secret + "\n" + secret},
		{"queues", "list", "--token", secret, "--token-file", "x"},
		{"queues", "list", "--token-file", file},
		{"queues", "--token", secret, "lsit"},
	} {
		got := runIn(t.Context(), nil, func(env *cli.Env) {
			env.Getenv = func(name string) string {
				return map[string]string{"AMBOY_URL": "http://127.0.0.1:1", "AMBOY_TOKEN": secret}[name]
			}
			env.Connect = cli.Dial
		}, args...)
		assert.NotEmpty(t, got.out+got.errOut, args)
		assert.NotContains(t, got.out+got.errOut, secret, args)
	}
}

func TestInvalidTokenIsAUsageError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, args := range [][]string{
		{"--token", "two words"},
		{"--token", "a\x00b"},
		{"--token-file", empty},
		{"--token-file", empty + ".none"},
		{"--token", "a", "--token-file", empty},
	} {
		got := run(t, newFake(), append([]string{"queues", "list"}, args...)...)
		assert.Equal(t, 2, got.code, "%q: %s", args, got.errOut)
	}
}

func TestHelpNamesAllCommands(t *testing.T) {
	got := run(t, newFake(), "--help")
	require.Zero(t, got.code)
	for _, name := range []string{"queues", "jobs", "scopes", "processes", "schedules", "activity", "audit", "doctor", "completion"} {
		assert.Contains(t, got.out, "\n  "+name+" ")
	}
	jobs := run(t, newFake(), "jobs", "--help")
	for _, kind := range management.ActionKinds() {
		assert.Contains(t, jobs.out, "\n  "+string(kind)+" ")
	}
}

func TestVersion(t *testing.T) {
	got := run(t, newFake(), "--version")
	assert.Zero(t, got.code)
	assert.Regexp(t, `^amboy version \S+\n$`, got.out)
}

func TestWrongFlagsAndCommandsDidNotPointToTheHelp(t *testing.T) {
	got := run(t, newFake(), "jobs", "show", "--queue", "mail")
	assert.Equal(t, result{code: 2, errOut: "amboy: unknown flag: --queue; see amboy jobs show --help\n"}, got)
	got = run(t, newFake(), "jobs", "get", "ann")
	assert.Equal(t, result{code: 2, errOut: "amboy: unknown command \"get\" of amboy jobs; see amboy jobs --help\n"}, got)
}

// "amboy version" was an unknown command, and nothing named the revision.
func TestTheRevisionIsShownNowhere(t *testing.T) {
	assert.Equal(t, result{out: "version   v1.2.3\ngo        go1.26.0\nrevision  1558e3b1c9, 2026-11-21T09:00:00Z, modified\n"}, run(t, newFake(), "version"))
	bare := func(env *cli.Env) { env.Build = func() (*debug.BuildInfo, bool) { return nil, false } }
	got := runIn(t.Context(), newFake(), bare, "version", "-o", "json")
	assert.JSONEq(t, `{"version":"unknown","go":"unknown","revision":"unknown"}`, got.out)
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := run(t, newFake(), "completion", shell)
		assert.Zero(t, got.code, shell)
		assert.Contains(t, got.out, "amboy", shell)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrorOfTheOutputIsAFailure(t *testing.T) {
	broken := func(env *cli.Env) { env.Stdout = brokenPipe{} }
	for _, format := range []string{"table", "json"} {
		got := runIn(t.Context(), newFake(), broken, "queues", "list", "-o", format)
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.errOut, "writing the output: ")
	}
}

func TestListsAreCutToTheWidth(t *testing.T) {
	atStart(t, func(t *testing.T) {
		const width = 50
		narrow := func(env *cli.Env) { env.Width = width }
		got := runIn(t.Context(), newFake(), narrow, "jobs", "list")
		require.Zero(t, got.code)
		for line := range strings.Lines(got.out) {
			assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), width, line)
		}
		assert.Contains(t, got.out, "…")
		shown := runIn(t.Context(), newFake(), narrow, "jobs", "show", "mail", "welcome-ada")
		assert.NotContains(t, shown.out, "…", "a single job must not be cut")
	})
}

// A token that is sent without TLS can be intercepted, except on the loopback interface.
func TestAttackTheTokenIsIntercepted(t *testing.T) {
	const warning = "amboy: warning: the credentials are sent to jobs.example without encryption: use https\n"
	for _, c := range []struct{ url, token, want string }{
		{"http://jobs.example/amboy", "secret", warning},
		{"http://user:secret@jobs.example", "", warning},
		{"HTTP://JOBS.EXAMPLE", "secret", strings.ReplaceAll(warning, "jobs.example", "JOBS.EXAMPLE")},
		{"http://localhost.jobs.example", "secret", strings.ReplaceAll(warning, "jobs.example", "localhost.jobs.example")},
		{"https://jobs.example", "secret", ""},
		{"http://jobs.example", "", ""},
		{"http://localhost:8080", "secret", ""},
		{"http://127.0.0.1:8080", "secret", ""},
		{"http://[::1]:8080", "secret", ""},
	} {
		env := func(env *cli.Env) {
			env.Getenv = func(name string) string { return map[string]string{"AMBOY_TOKEN": c.token}[name] }
		}
		got := runIn(t.Context(), newFake(), env, "queues", "list", "--url", c.url)
		assert.Equal(t, c.want, got.errOut, c.url)
		assert.Zero(t, got.code)
	}
}

// The source lines of the stack began with the two characters \t, and were cut to the width.
func TestShowPrintedTheTabsOfAStuckStackEscaped(t *testing.T) {
	service := newFake()
	line := "/srv/mail/" + strings.Repeat("long/", 20) + "send.go:31 +0x16"
	service.jobs[1].Stuck = &amboy.StuckRun{Since: ago(time.Minute), Cause: "the job was aborted", Stack: "mail.send()\n\t" + line + "\n"}
	narrow := func(env *cli.Env) { env.Width = 60 }
	got := runIn(t.Context(), service, narrow, "jobs", "show", "mail", "digest")
	assert.Contains(t, got.out, "    mail.send()\n        "+line+"\n")
}
