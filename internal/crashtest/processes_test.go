package crashtest_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the longest that a test waits for something in this process that should
// come soon. For what another process does it waits as long as that lives: go test has a
// limit of its own.
const patience = time.Minute

// process is another process of a test: this program, which runs one test.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	ready    chan struct{} // closed when it said so
	produced chan struct{}
	exited   chan struct{} // closed when it is gone
	// output is what else it said, and exit its end; set before exited is closed.
	output strings.Builder
	exit   error
	// said has the latest lines of the output, for a test that follows them.
	said chan string
}

// quickExit keeps the race detector from waiting for a second at the end of a
// process.
const quickExit = "GORACE=atexit_sleep_ms=0"

// startProcess starts a process that runs a test, with a variable of the
// environment that says what it is to do. attributes may be nil.
func startProcess(t *testing.T, name, test, variable string, attributes *syscall.SysProcAttr) (*process, error) {
	t.Helper()
	p := &process{
		name:     name,
		cmd:      exec.Command(os.Args[0], append(ownFlags(), "-test.v", "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$")...),
		ready:    make(chan struct{}),
		produced: make(chan struct{}),
		exited:   make(chan struct{}),
		said:     make(chan string, 100),
	}
	p.cmd.Env = append(os.Environ(), variable, quickExit)
	p.cmd.SysProcAttr = attributes
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = p.cmd.Stdout
	err = p.cmd.Start()
	if err != nil {
		return nil, err
	}
	go p.listen(output)
	return p, nil
}

// ownFlags are the flags of these tests that were given to this process.
func ownFlags() (flags []string) {
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "crashtest.") {
			flags = append(flags, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return flags
}

// listen follows a process to its end.
func (p *process) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		switch lines.Text() {
		case saysReady:
			close(p.ready)
		case saysProduced:
			close(p.produced)
		default:
			p.output.WriteString(lines.Text() + "\n")
			select {
			case p.said <- lines.Text():
			default: // No test follows them.
			}
		}
	}
	p.exit = p.cmd.Wait()
	close(p.exited)
}

// await waits for the process to say something, and fails where it ends first.
func (p *process) await(t *testing.T, what string, said <-chan struct{}) {
	t.Helper()
	select {
	case <-said:
	case <-p.exited:
		require.Failf(t, "a process ended by itself", "before %s: %s: %v\n%s", what, p.name, p.exit, &p.output)
	}
}

// kill kills the process, unless it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() //nolint:errcheck // It has ended, or else ends now.
	<-p.exited
}

// childVariable tells a process of these tests to go on with a test.
const childVariable = "CRASHTEST_CHILD"

// inChild runs the test in a process of its own, and returns true there: a test
// whose jobs run in its process can't share that with others. In the process that
// started it, it returns when that has ended, with its result.
func inChild(t *testing.T, attributes *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	t.Parallel()
	child, err := startProcess(t, "child", t.Name(), childVariable+"=1", attributes)
	if err != nil {
		t.Skipf("no such process can be started here: %v", err)
	}
	t.Cleanup(child.kill)
	<-child.exited
	require.NoError(t, child.exit, "%s", &child.output)
	t.Logf("%s", &child.output)
	if strings.Contains(child.output.String(), "--- SKIP") {
		t.Skip("see above")
	}
	return false
}

// fleet are the processes of a crash test: one for each part of the plan at a
// time.
type fleet struct {
	t      *testing.T
	config workerConfig
	live   [processes]*process
	begun  int
	deaths map[string]time.Time
}

func prefixOf(part int) string { return fmt.Sprintf("process-%d-", part) }

func newFleet(t *testing.T, s setup, dir string) *fleet {
	t.Helper()
	f := &fleet{t: t, config: workerConfig{setup: s, Dir: dir, Began: time.Now()}, deaths: map[string]time.Time{}}
	for part := range processes {
		f.start(part)
	}
	f.awaitAll("its start", func(p *process) <-chan struct{} { return p.ready })
	return f
}

// start starts a process for a part of the plan.
func (f *fleet) start(part int) {
	f.t.Helper()
	f.begun++
	config := f.config
	config.Process, config.Name = part, fmt.Sprintf("%s%04d", prefixOf(part), f.begun)
	encoded, err := json.Marshal(config)
	require.NoError(f.t, err)
	p, err := startProcess(f.t, config.Name, "TestWorker", configVariable+"="+string(encoded), nil)
	require.NoError(f.t, err)
	f.t.Cleanup(p.kill)
	f.live[part] = p
}

func (f *fleet) awaitAll(what string, said func(*process) <-chan struct{}) {
	f.t.Helper()
	for _, p := range f.live {
		p.await(f.t, what, said(p))
	}
}

// kill kills the process of a part of the plan, and starts another.
func (f *fleet) kill(part int) {
	f.t.Helper()
	p := f.live[part]
	select {
	case <-p.exited:
		require.Failf(f.t, "a process ended by itself", "%s: %v\n%s", p.name, p.exit, &p.output)
	default:
	}
	f.deaths[p.name] = time.Now()
	p.kill()
	f.start(part)
}

// stop lets all processes end in good order.
func (f *fleet) stop() {
	f.t.Helper()
	for _, p := range f.live {
		require.NoError(f.t, p.stdin.Close())
	}
	for _, p := range f.live {
		<-p.exited
		require.NoError(f.t, p.exit, "%s\n%s", p.name, &p.output)
	}
}
