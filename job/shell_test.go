package job_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

func TestNewShellJob(t *testing.T) {
	long := strings.Repeat("é", 200)
	for name, test := range map[string]struct{ command, id string }{
		"a command": {"echo hello", `^shell-job-\d+-echo$`},
		"spaces":    {"\n  /bin/echo\thello", `^shell-job-\d+-/bin/echo$`},
		"a word":    {"true", `^shell-job-\d+-true$`},
		"long word": {long, `^shell-job-\d+-é{32}$`},
		"empty":     {"", `^shell-job-\d+-$`},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob(test.command, "")
			assert.Regexp(t, test.id, j.ID())
			assert.Equal(t, test.command, j.Command)
			assert.Equal(t, amboy.JobType{Name: "shell", Version: 1}, j.Type())
			assert.Equal(t, "always", j.Dependency().Type().Name)
			require.NoError(t, amboy.ValidateJob(j))
			assert.NotEqual(t, j.ID(), job.NewShellJob(test.command, "").ID())
		})
	}
}

func TestShellJobThatCreatesFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "made")
	j := job.NewShellJob("touch "+name, name)
	assert.Equal(t, dependency.Ready, j.Dependency().State())
	require.NoError(t, amboy.RunJob(t.Context(), j))
	assert.Equal(t, dependency.Passed, j.Dependency().State())
}

// script writes a shell script and returns the command that runs it.
func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return "/bin/sh " + name
}

func TestShellJobOutput(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, test := range map[string]struct {
		job  *job.ShellJob
		want string
	}{
		"standard output": {&job.ShellJob{Command: "echo hello"}, "hello"},
		"both outputs":    {&job.ShellJob{Command: script(t, "echo one; echo two >&2; echo three")}, "one\ntwo\nthree"},
		"trimmed":         {&job.ShellJob{Command: `printf \n\ta\n\n`}, "a"},
		"nothing":         {&job.ShellJob{Command: "true"}, ""},
		"not UTF-8":       {&job.ShellJob{Command: `printf a\377bé`}, "a?bé"},
		"working dir":     {&job.ShellJob{Command: "pwd -P", WorkingDir: dir}, dir},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob(test.job.Command, "")
			j.WorkingDir = test.job.WorkingDir
			j.Run(t.Context())
			require.NoError(t, j.Error())
			assert.True(t, j.Status().Completed)
			assert.Equal(t, test.want, j.Output)
		})
	}
}

func TestShellJobRunsProgramWithoutAShell(t *testing.T) {
	for command, want := range map[string]string{
		`echo $HOME; exit 3 | cat`: `$HOME; exit 3 | cat`,
		`echo "a b" 'c'`:           `"a b" 'c'`,
		"echo a\tb\nc":             "a\tb\nc",
		"printf [%s] a  b ":        "[a][][b][]",
	} {
		t.Run(command, func(t *testing.T) {
			j := job.NewShellJob(command, "")
			require.NoError(t, amboy.RunJob(t.Context(), j))
			assert.Equal(t, want, j.Output)
		})
	}
}

func TestShellJobHasOnlyItsEnvironment(t *testing.T) {
	t.Setenv("AMBOY_TEST_OUTER", "outer")
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nil":   {nil, ""},
		"empty": {map[string]string{}, ""},
		"one":   {map[string]string{"AMBOY_TEST_INNER": "in ner"}, "AMBOY_TEST_INNER=in ner"},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob("env", "")
			j.Env = test.env
			require.NoError(t, amboy.RunJob(t.Context(), j))
			assert.Equal(t, test.want, j.Output)
		})
	}
}

func TestShellJobEnvIsWritable(t *testing.T) {
	for _, j := range []*job.ShellJob{job.NewShellJob("env", ""), job.NewShellJobInstance()} {
		assert.Empty(t, j.Env)
		j.Env["WHO"] = "me"
	}
	assert.Empty(t, job.NewShellJobInstance().Env, "jobs do not share it")
}

func TestShellJobKeepsEndOfOutput(t *testing.T) {
	for name, test := range map[string]struct {
		script, start string
	}{
		"as much as is kept": {"head -c 65532 /dev/zero | tr '\\0' x; echo end", "xxx"},
		"one byte more":      {"head -c 65532 /dev/zero | tr '\\0' x; echo end.", "(1 bytes left out)\nxxx"},
		"much more":          {"head -c 500000 /dev/zero | tr '\\0' x; echo end", "(434468 bytes left out)\nxxx"},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob(script(t, test.script), "")
			require.NoError(t, amboy.RunJob(t.Context(), j))
			assert.True(t, strings.HasPrefix(j.Output, test.start), j.Output[:30])
			assert.Contains(t, j.Output[len(j.Output)-4:], "end")
			assert.LessOrEqual(t, len(j.Output), job.MaxShellOutput+len("(434468 bytes left out)\n"))
			assert.GreaterOrEqual(t, len(j.Output), job.MaxShellOutput-1)
		})
	}
}

func TestShellJobFailures(t *testing.T) {
	for name, test := range map[string]struct {
		job     *job.ShellJob
		message string
		output  string
		retries bool
	}{
		"exit status":          {&job.ShellJob{Command: script(t, "echo no; exit 3")}, "exit status 3", "no", true},
		"killed":               {&job.ShellJob{Command: script(t, "kill -9 $$")}, "signal: killed", "", true},
		"no such program":      {&job.ShellJob{Command: filepath.Join(t.TempDir(), "program") + " arg"}, "no such file or directory", "", true},
		"not in the path":      {&job.ShellJob{Command: "amboy-test-nonexistent arg"}, "executable file not found", "", true},
		"no working directory": {&job.ShellJob{Command: "true", WorkingDir: filepath.Join(t.TempDir(), "none")}, "none", "", true},
		"space first":          {&job.ShellJob{Command: " true"}, "exec: no command", "", true},
		"empty":                {&job.ShellJob{}, "Command must not be empty", "", false},
		"only space":           {&job.ShellJob{Command: " \n"}, "Command must not be empty", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob(test.job.Command, "")
			j.WorkingDir = test.job.WorkingDir
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true)})
			j.Run(t.Context())
			require.ErrorContains(t, j.Error(), test.message)
			require.ErrorContains(t, j.Error(), j.ID())
			assert.Equal(t, test.output, j.Output)
			assert.True(t, j.Status().Completed)
			assert.Equal(t, test.retries, j.RetryInfo().NeedsRetry)
		})
	}
}

func TestShellJobIsNotRunWhenContextHasEnded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "made")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	j := job.NewShellJob("touch "+name, "")
	j.Run(ctx)
	require.ErrorContains(t, j.Error(), "shutting down")
	assert.False(t, j.Status().Completed)
	_, err := os.Stat(name)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestShellJobRoundTrip(t *testing.T) {
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		t.Run(f.String(), func(t *testing.T) {
			j := job.NewShellJob("env", "/nonexistent")
			j.WorkingDir, j.Env, j.Output = "/", map[string]string{"WHO": "me"}, "old"
			stored, err := registry.MakeJobInterchange(j, f)
			require.NoError(t, err)
			resolved, err := stored.Resolve(f)
			require.NoError(t, err)
			got := resolved.(*job.ShellJob)
			assert.Equal(t, "old", got.Output)
			assert.Equal(t, j.Dependency(), got.Dependency())
			require.NoError(t, amboy.RunJob(t.Context(), got))
			assert.Equal(t, "WHO=me", got.Output)
			assert.Equal(t, "/", got.WorkingDir)
		})
	}
}
