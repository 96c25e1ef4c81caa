package workq_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
)

// storeVariable makes a process of these tests a server on a file, until it is killed.
const storeVariable = "WORKQ_TEST_STORE"

// saysAddress is what the server prints before its address.
const saysAddress = "serving at "

// TestServerProcess is run by the servers that other tests kill.
func TestServerProcess(t *testing.T) {
	path := os.Getenv(storeVariable)
	if path == "" {
		t.Skip("run only by other tests")
	}
	l := outsidetest.Listen(t)
	start(t, outsidetest.SQLite(t, path), noOptions, l, nil)
	fmt.Println(saysAddress + l.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, if that kills nothing
}

// inProcess starts a server on a file in another process. kill kills it; killing again does nothing.
func inProcess(t *testing.T, path string) (f *fixture, kill func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerProcess$") //nolint:gosec // It is this program.
	command.Env = append(os.Environ(), storeVariable+"="+path)
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	kill = sync.OnceFunc(func() {
		require.NoError(t, command.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		require.ErrorContains(t, command.Wait(), "killed")
		_ = in.Close()
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), saysAddress); ok {
			return &fixture{T: t, dial: func() (net.Conn, error) {
				return net.Dial("tcp", address) //nolint:noctx // It is local.
			}}, kill
		}
	}
	require.Fail(t, "the server has ended")
	return nil, nil
}

// commands are commands that are sent at once, and their answers.
type commands struct{ send, want strings.Builder }

func (c *commands) add(command, want string) {
	c.send.WriteString(command)
	c.want.WriteString(want)
}

// Of 1,000 jobs of workq's own last test, 250 each have succeeded, failed, been deleted and been leased when the server
// is killed.
func testThousandJobsAKillAndARestart(t *testing.T) {
	const each = 250
	path := filepath.Join(t.TempDir(), "jobs.db")
	f, kill := inProcess(t, path)
	before := make([]commands, 4)
	for n := range each {
		completed, failed, deleted, leased := n, each+n, 2*each+n, 3*each+n
		before[0].add(add(completed, "completed", 600_000, 3_600_000, "x"), ok)
		before[0].add(complete(completed, fmt.Sprint("done ", n)), ok)
		before[1].add(add(failed, "failed", 600_000, 3_600_000, "x"), ok)
		before[1].add(fail(failed, fmt.Sprint("why ", n)), ok)
		before[2].add(add(deleted, "deleted", 600_000, 3_600_000, "x"), ok)
		before[2].add("delete "+id(deleted)+"\r\n", ok)
		before[3].add(add(leased, "leased", 600_000, 3_600_000, fmt.Sprint("job ", n)), ok)
		before[3].add("lease leased 0\r\n", job(leased, "leased", 600_000, fmt.Sprint("job ", n)))
	}
	var clients sync.WaitGroup
	for i := range before {
		c := f.connect()
		clients.Go(func() { c.send(before[i].send.String()) })
		clients.Go(func() { c.expectSoon(before[i].want.String()) })
	}
	clients.Wait()
	kill()
	if t.Failed() {
		return
	}

	f, _ = inProcess(t, path)
	var after commands
	for n := range each {
		after.add(result(n, 0), ended(n, 1, fmt.Sprint("done ", n)))
		after.add(result(each+n, 0), ended(each+n, 0, fmt.Sprint("why ", n)))
		after.add(result(2*each+n, 0), missing)
		after.add(result(3*each+n, 0), timeout)
	}
	c := f.connect()
	go func() { _, _ = io.WriteString(c.conn, after.send.String()) }() // the answers show whether all was sent
	c.expect(after.want.String())
	for _, n := range []int{3 * each, 4*each - 1} {
		values, _ := c.inspected(n)
		assert.Equal(t, []string{"4", "1"}, []string{values["state"], values["attempts"]})
	}
	c.do("lease completed failed deleted leased 0\r\n", timeout)
	c.do(add(0, "completed", 1000, 1000, ""), "-CLIENT-ERROR Duplicate job\r\n")
	c.do(add(2*each, "deleted", 1000, 60_000, ""), ok)
	c.do(complete(3*each, "after the restart"), ok)
	c.do(result(3*each, 0), ended(3*each, 1, "after the restart"))
}

// expectSoon is expect for other goroutines than that of the test.
func (c *client) expectSoon(want string) {
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	assert.Equal(c, want, string(got[:n]), "read until: %v", err)
}
