package benchmarks

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// BenchmarkSchedule puts 100,000 jobs that become due within 2 seconds, in random order, and
// measures how late they start, with 64 workers.
func BenchmarkSchedule(b *testing.B) {
	const jobs = 100_000
	var late samples
	for b.Loop() {
		runtime.GC()
		late = append(late, lateness(b, jobs)...)
	}
	b.ReportMetric(0, "ns/op")
	late.reportLatency(b, "late-")
}

func lateness(b *testing.B, jobs int) samples {
	// The jobs are put before the first of them is due.
	const lead, spread = 500 * time.Millisecond, 2 * time.Second

	q := start(b, queue.NewLocalLimitedSize(64, jobs))
	defer q.Close(b.Context())
	var running sync.WaitGroup
	running.Add(jobs)
	late := make(samples, jobs)
	random := rand.New(rand.NewPCG(1, 2))
	tasks := make([]*task, jobs)
	first := time.Now().Add(lead)
	for i := range tasks {
		due := first.Add(time.Duration(random.Int64N(int64(spread))))
		tasks[i] = newTask(func() {
			late[i] = time.Since(due)
			running.Done()
		})
		tasks[i].SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
	}
	for _, t := range tasks {
		put(b, q, t)
	}
	running.Wait()
	return late
}
