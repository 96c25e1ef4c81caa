package benchmarks

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue"
)

// BenchmarkDrain measures how many no-op jobs a queue accepts and runs per second, from the
// first Put to the last Run, with 8 workers, with 1 and with 64, and how many tasks the
// baselines accept and run with 8 workers. They alternate, so that other load on the machine
// affects all of them.
func BenchmarkDrain(b *testing.B) {
	const jobs = 100_000
	took := map[string]samples{}
	measure := func(name string, drain func() time.Duration) {
		runtime.GC() // so that none pays for the garbage of the one before
		took[name] = append(took[name], drain())
	}
	for b.Loop() {
		for _, workers := range []int{1, 8, 64} {
			measure(fmt.Sprintf("%d-workers", workers), func() time.Duration {
				return drainQueue(b, workers, jobs)
			})
		}
		for _, baseline := range baselines {
			measure(baseline.name, func() time.Duration {
				p, err := baseline.start(8)
				require.NoError(b, err)
				return drainPool(b, p, jobs)
			})
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, s := range took {
		b.ReportMetric(s.rate(jobs), name+"-jobs/s")
	}
	ours := took["8-workers"].rate(jobs)
	b.ReportMetric(ours/took["heap"].rate(jobs), "8-workers-x-heap")
}

// drainQueue measures how long a new queue takes to accept and run jobs. Their creation is not
// measured.
func drainQueue(b *testing.B, workers, jobs int) time.Duration {
	q := start(b, queue.NewLocalLimitedSize(workers, jobs))
	defer q.Close(b.Context())
	var running sync.WaitGroup
	running.Add(jobs)
	tasks := newTasks(jobs, running.Done)

	begin := time.Now()
	for _, t := range tasks {
		put(b, q, t)
	}
	running.Wait()
	return time.Since(begin)
}

// drainPool is drainQueue for a baseline.
func drainPool(b *testing.B, p workerPool, tasks int) time.Duration {
	var running sync.WaitGroup
	running.Add(tasks)

	begin := time.Now()
	for range tasks {
		if err := p.submit(running.Done); err != nil {
			b.Fatalf("submitting a task: %v", err)
		}
	}
	running.Wait()
	took := time.Since(begin)

	require.NoError(b, p.close())
	return took
}
