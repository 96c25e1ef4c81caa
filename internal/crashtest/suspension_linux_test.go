package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

var pauses = flag.Int("crashtest.pauses", 1, "how often each test of suspensions stops a process")

// sleeperSetup is what a process that is stopped needs to know.
type sleeperSetup struct {
	Store store
	Lease time.Duration
}

// suspended starts a process that runs a job under leases of the given length.
func suspended(t *testing.T, lease time.Duration) *process {
	t.Helper()
	s := sleeperSetup{Store: newFile(t), Lease: lease}
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	p, err := startProcess(t, "sleeper", "TestSleeper", sleeperVariable+"="+string(encoded), nil)
	require.NoError(t, err)
	t.Cleanup(p.kill)
	p.await(t, "its start", p.ready)

	q := newQueue(t, s.Store.open(t), lease)
	t.Cleanup(func() { closeQueue(t, q) })
	require.NoError(t, q.Put(t.Context(), newSleeper()))
	p.hear(t, saysBegan)
	return p
}

// end lets the process end by itself.
func (p *process) end(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	<-p.exited
	require.NoError(t, p.exit, "%s", &p.output)
}

// TestSuspension stops a process that runs a job, with SIGSTOP. A stop that is shorter
// than the lease loses nothing, even if a renewal is late by that.
func TestSuspension(t *testing.T) {
	t.Parallel()
	// A lease counts as over after nine tenths of its length. A quarter may have passed when the process is
	// stopped for another third, so a busy machine has the rest to renew it.
	const lease = 12 * time.Second
	p := suspended(t, lease)
	for range *pauses {
		resumed := p.stopFor(t, lease/3)
		for p.hear(t, saysAlive).Before(resumed.Add(lease)) {
			continue
		}
	}
	p.end(t)
}

// After a stop that is longer than the lease the context of the run ends first, and then the job runs again.
func TestSuspensionThatOutlastsTheLease(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	p := suspended(t, lease)
	var late []time.Duration
	for range *pauses {
		resumed := p.stopFor(t, 2*lease)
		lost := p.hear(t, saysLost)
		again := p.hear(t, saysBegan)
		late = append(late, lost.Sub(resumed))
		assert.LessOrEqual(t, lost.Sub(resumed), 100*time.Millisecond+*slack)
		assert.False(t, again.Before(lost), "two runs of the job were live at once")
	}
	t.Logf("the context ended after %v", late)
	p.end(t)
}

// The lines that a sleeper prints, with the time.
const (
	saysBegan = "sleeper: began"
	saysAlive = "sleeper: alive"
	saysLost  = "sleeper: lost its lease"
)

// stopFor suspends the process for a time and returns when it was resumed.
func (p *process) stopFor(t *testing.T, d time.Duration) (resumed time.Time) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	<-time.After(d)
	p.forget()
	resumed = time.Now()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	return resumed
}

// forget discards the previous output of the process.
func (p *process) forget() {
	for {
		select {
		case <-p.said:
		default:
			return
		}
	}
}

// hear waits for the next line of the process, which must be what, and returns its time.
func (p *process) hear(t *testing.T, what string) time.Time {
	t.Helper()
	for {
		select {
		case line := <-p.said:
			text, at, ok := strings.Cut(line, " at ")
			if !ok || text == saysAlive && what != saysAlive {
				continue
			}
			require.Equal(t, what, text)
			nanoseconds, err := strconv.ParseInt(at, 10, 64)
			require.NoError(t, err)
			return time.Unix(0, nanoseconds)
		case <-p.exited:
			require.Failf(t, "the process ended by itself", "%v\n%s", p.exit, &p.output)
		}
	}
}

// sleeperVariable makes a process run sleepers.
const sleeperVariable = "CRASHTEST_SLEEPER"

// TestSleeper is run by the process that is stopped.
func TestSleeper(t *testing.T) {
	encoded := os.Getenv(sleeperVariable)
	if encoded == "" {
		t.Skip("run only by other tests")
	}
	var s sleeperSetup
	require.NoError(t, json.Unmarshal([]byte(encoded), &s))
	q := newQueue(t, s.Store.open(t), s.Lease)
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	fmt.Println(saysReady)
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Close(ctx)
}

// sleeper runs until its context ends, and reports its state.
type sleeper struct {
	job.Base `bson:"job_base"`
}

func init() { registry.AddJobType("sleeper", func() amboy.Job { return newSleeper() }) }

func newSleeper() *sleeper {
	j := &sleeper{Base: job.Base{JobType: amboy.JobType{Name: "sleeper"}}}
	j.SetID("sleeper")
	return j
}

func (j *sleeper) Run(ctx context.Context) {
	say := func(what string) { fmt.Printf("%s at %d\n", what, time.Now().UnixNano()) }
	say(saysBegan)
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), amboy.ErrLeaseLost) {
				say(saysLost)
			}
			return
		case <-alive.C:
			say(saysAlive)
		}
	}
}
