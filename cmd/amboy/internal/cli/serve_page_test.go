package cli_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// shellBlock matches the commands of a page.
var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// terminal runs the commands that a page shows against a server.
type terminal struct {
	*testing.T
	home, url string
}

// newTerminal starts a server with the files of a user, and puts the program on the user's path.
func newTerminal(t *testing.T) terminal {
	t.Helper()
	for _, program := range []string{"bash", "curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	home := t.TempDir()
	own, err := os.Executable()
	require.NoError(t, err)
	wrapper := "#!/bin/sh\nexec env " + asProgram + "=1 '" + own + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "amboy"), []byte(wrapper), 0o700)) //nolint:gosec // It is run.

	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Config{Store: "memory", Listen: "127.0.0.1:0", TokenFile: filepath.Join(home, ".config", "amboy", "token")}, in)
		_ = in.Close() // no error to report
	}()
	lines := bufio.NewScanner(out)
	var url string
	for !strings.Contains(lines.Text(), "Ctrl-C") && lines.Scan() {
		if found := regexp.MustCompile(`API +(\S+)/v2`).FindStringSubmatch(lines.Text()); found != nil {
			url = found[1]
		}
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.NotEmpty(t, url)
	return terminal{t, home, url}
}

// run runs commands in a folder, and returns what they print.
func (t terminal) run(commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euc", strings.ReplaceAll(commands, "http://127.0.0.1:8080", t.url))
	shell.Dir = "../../../.."
	shell.Env = append(os.Environ(), "HOME="+t.home, "AMBOY_WAIT=0.1", "PATH="+t.home+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// blocksOf returns the commands of a page.
func blocksOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/guides/" + page)
	require.NoError(t, err)
	var blocks []string
	for _, match := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

// The page had JSON with gaps, with a deadline in the past, and with a token that no server had given.
func TestTheCommandsOfThePageCannotBeRun(t *testing.T) {
	term := newTerminal(t)
	connect, _, _ := strings.Cut(blocksOf(t, "run-a-server.md")[0], "\n")
	blocks := blocksOf(t, "run-workers-in-any-language.md")
	require.Len(t, blocks, 4)
	out := term.run(connect + "\n" + strings.Join(blocks, "echo\n"))
	assert.NotContains(t, out, "problem")
	assert.Contains(t, out, `"cancel":false`)
	assert.Contains(t, out, `"acknowledged":[{"done":true}]`)
	assert.Contains(t, out, `"path":"cats.png"`, "the job that waited for the first one")
	assert.Contains(t, out, `"ended":true,"result":{"width":640}`)

	page, err := os.ReadFile("../../../../docs/guides/run-workers-in-any-language.md")
	require.NoError(t, err)
	const post = `curl -s --oauth2-bearer "$AMBOY_TOKEN" "$AMBOY_URL`
	lease, _, _ := strings.Cut(blocks[1], post+"/v2/leases/heartbeat")
	acknowledgements := regexp.MustCompile("(?m)^\\| `(\"\\w+\": \\{.*\\})` \\|").FindAllStringSubmatch(string(page), -1)
	require.Len(t, acknowledgements, 4)
	for _, match := range acknowledgements {
		out = term.run(connect + "\namboy jobs create pages thumbnail --outside\n" + strings.ReplaceAll(lease, "images", "pages") +
			post + `/v2/leases/acknowledge" --json '{"acknowledge": [{'"$lease"', ` + match[1] + "}]}'")
		assert.Contains(t, out, `{"acknowledged":[{"done":true}]}`, match[1])
	}
}

// The command line could not make a job for workers outside of Go, and amboy serve has no others.
func TestJobsCannotBePutFromTheShell(t *testing.T) {
	blocks := blocksOf(t, "run-a-server.md")
	require.Len(t, blocks, 1)
	term := newTerminal(t)
	connect, rest, _ := strings.Cut(blocks[0], "\n")
	put, rest, _ := strings.Cut(rest, "\n")
	worker, show, _ := strings.Cut(rest, "\n")
	worker, _, _ = strings.Cut(worker, " #")
	out := term.run(connect + "\n" + put + "\n" + worker + " & worker=$!\namboy jobs watch texts words --every 50ms\nkill -INT $worker; wait $worker\n" + show)
	assert.Contains(t, out, "created: texts words\n")
	assert.Regexp(t, `state +succeeded`, out)
	assert.Contains(t, out, `"words": 4`)

	out = term.run(connect + "\namboy jobs create hello greet && exit 1; test $? = 5")
	assert.Contains(t, out, "set \"outside\" (on the command line --outside)")
}
