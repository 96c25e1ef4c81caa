package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/management"
)

var update = flag.Bool("update", false, "update the golden files")

// environment is that of a script: it is not interactive.
func environment(inspector management.Inspector, out, errOut *bytes.Buffer) cli.Env {
	return cli.Env{
		Stdin:  strings.NewReader(""),
		Stdout: out,
		Stderr: errOut,
		Getenv: func(name string) string {
			return map[string]string{"AMBOY_URL": "http://jobs.example"}[name]
		},
		Build: func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "1558e3b1c9"}, {Key: "vcs.time", Value: "2026-11-21T09:00:00Z"}, {Key: "vcs.modified", Value: "true"},
			}}, true
		},
		Connect: func(cli.Service) (management.Inspector, error) { return inspector, nil },
	}
}

// atStart runs a test at the current time of the fake.
func atStart(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start)) // fake time
		test(t)
	})
}

// session runs a command line against a new fake, and returns the output.
func session(t *testing.T, line string) string {
	t.Helper()
	var out bytes.Buffer
	args := words(t, line)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // to end watches
	defer cancel()
	code := cli.Run(ctx, environment(newFake(), &out, &out), args[1:])
	if code != 0 {
		fmt.Fprintf(&out, "(exit code %d)\n", code)
	}
	return out.String()
}

// words splits a line at spaces outside of quotes.
func words(t *testing.T, line string) []string {
	t.Helper()
	var list []string
	for part := range strings.FieldsFuncSeq(line, quoted()) {
		list = append(list, strings.ReplaceAll(strings.ReplaceAll(part, `""`, ""), "'", ""))
	}
	require.NotEmpty(t, list)
	require.Equal(t, "amboy", list[0])
	return list
}

// quoted returns a function that reports whether a rune is a space outside of single quotes.
func quoted() func(rune) bool {
	inside := false
	return func(r rune) bool {
		if r == '\'' {
			inside = !inside
		}
		return r == ' ' && !inside
	}
}

// rerun runs the command lines in a text, which begin with a prompt, and returns the text with
// their current output. The output of a command extends to the next command line, the next
// comment, or the end of the code block.
func rerun(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	inOutput := false
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(strings.TrimRight(line, "\n"), "$ ")
		if isCommand || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "# ") {
			inOutput = false
		}
		if !inOutput {
			b.WriteString(line)
		}
		if isCommand {
			b.WriteString(session(t, command))
			inOutput = true
		}
	}
	return b.String()
}

// checkGolden compares the output of commands with a file.
func checkGolden(t *testing.T, file string) {
	t.Helper()
	atStart(t, func(t *testing.T) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(content), "\n$ amboy ")
		got := rerun(t, string(content))
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			return
		}
		assert.Equal(t, string(content), got)
	})
}

func TestOutput(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkGolden(t, file) })
	}
}

func TestManualShowsWhatCommandsPrint(t *testing.T) {
	for _, page := range []string{"reference/command-line.md", "guides/diagnose-a-store.md"} {
		checkGolden(t, "../../../../docs/"+page)
	}
}
