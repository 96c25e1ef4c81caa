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

// patience bounds waits for events in this process that should come soon. Waits for
// another process last as long as that process lives; go test has its own limit.
const patience = time.Minute

// process is another process of a test: this program, running one test.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser

	ready    chan struct{} // closed when the process reported it
	produced chan struct{}
	exited   chan struct{} // closed when it has ended
	// output is its other output, and exit its error; both are set before exited is
	// closed.
	output strings.Builder
	exit   error
	// said receives the lines of the output, for a test that reads them.
	said chan string
}

// quickExit keeps the race detector from waiting for a second when a process ends.
const quickExit = "GORACE=atexit_sleep_ms=0"

// startProcess starts a process that runs a test. An environment variable contains its
// instructions. attributes may be nil.
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

// ownFlags returns the crashtest flags that were given to this process.
func ownFlags() (flags []string) {
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "crashtest.") {
			flags = append(flags, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return flags
}

// listen reads the output of a process until it ends.
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
			default: // no test reads the lines
			}
		}
	}
	p.exit = p.cmd.Wait()
	close(p.exited)
}

// await waits until the process reports something, and fails if it ends first.
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
	_ = p.cmd.Process.Kill() //nolint:errcheck // an error means that it has ended
	<-p.exited
}

// childVariable makes a process of these tests continue with a test.
const childVariable = "CRASHTEST_CHILD"

// inChild runs the test in a separate process and returns true there, because a test
// whose jobs run in its process can't share that with other tests. In the parent it
// returns false after the child has ended, and takes over its result.
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

// fleet is the processes of a crash test: at any time, one for each part of the plan.
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

// kill kills the process of a part of the plan and starts another.
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

// stop ends all processes gracefully.
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
