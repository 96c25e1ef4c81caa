package benchmarks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// BenchmarkDurableIdleLatency measures the time from Put to the start of Run in an idle queue
// in a database file, for jobs that this process puts, and for jobs that another process puts.
// The baselines alternate with amboy, and only in this process: backlite does not poll for
// jobs of other processes.
func BenchmarkDurableIdleLatency(b *testing.B) {
	b.Run("same-process", func(b *testing.B) {
		const jobs = 100
		took := map[string]samples{}
		for b.Loop() {
			for _, subject := range durableQueues {
				took[subject.name] = append(took[subject.name], durableLatency(b, subject.start, jobs)...)
			}
		}
		b.ReportMetric(0, "ns/op")
		for name, s := range took {
			s.reportLatency(b, name+"-")
		}
	})
	b.Run("other-process", func(b *testing.B) {
		const jobs = 100
		var took samples
		for b.Loop() {
			took = append(took, otherProcessLatency(b, jobs)...)
		}
		b.ReportMetric(0, "ns/op")
		took.reportLatency(b, "amboy-")
	})
}

// idleDurable waits until the end of the last job is stored and all workers wait.
func idleDurable() { <-time.After(20 * time.Millisecond) }

// durableLatency measures the time from Put to the start of Run, for one job after
// the other.
func durableLatency(b *testing.B, start durableStart, jobs int) (took samples) {
	started := make(chan time.Time, 1)
	q := start(b, newDurableSetup(b, "NORMAL", func() { started <- time.Now() }))
	for range jobs {
		idleDurable()
		begin := time.Now()
		if err := q.put(b.Context(), 1); err != nil {
			b.Fatalf("putting a job: %v", err)
		}
		took = append(took, (<-started).Sub(begin))
	}
	idleDurable()
	require.NoError(b, q.close())
	return took
}

// otherProcessLatency is durableLatency for jobs that a child process puts.
func otherProcessLatency(b *testing.B, jobs int) (took samples) {
	latency := make(chan time.Duration, 1)
	run := func(t *storedTask) { latency <- t.sinceMade() }
	runStored.Store(&run)
	setup := newDurableSetup(b, "NORMAL", nil)
	q := start(b, newAmboyFile(b, setup.workers, sqlite.Options{Path: setup.path}))
	defer q.Close(b.Context())

	process := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestPutForOtherProcess$")
	process.Env = append(os.Environ(), pathVariable+"="+setup.path)
	process.Stderr = os.Stderr
	orders, err := process.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, process.Start())
	for range jobs {
		idleDurable()
		_, err = fmt.Fprintln(orders)
		require.NoError(b, err)
		took = append(took, <-latency)
	}
	require.NoError(b, orders.Close())
	require.NoError(b, process.Wait())
	return took
}

// pathVariable is the environment variable with the file of the child process that puts jobs.
const pathVariable = "AMBOY_BENCHMARKS_PATH"

// TestPutForOtherProcess is the child process. It puts a job for each line that it reads.
func TestPutForOtherProcess(t *testing.T) {
	path := os.Getenv(pathVariable)
	if path == "" {
		t.Skip("it is run by a benchmark, in a process of its own")
	}
	q := newAmboyFile(t, 1, sqlite.Options{Path: path}) // not started: it runs no job
	defer q.Close(t.Context())
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		put(t, q, newStoredTask())
	}
}
