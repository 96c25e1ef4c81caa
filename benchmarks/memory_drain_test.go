package benchmarks

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
)

// BenchmarkMemoryDrain measures how many no-op jobs a queue on the memory driver accepts, 1,000
// at a time, and runs per second, from the first Put to the last Run. It measures the engine,
// because the driver takes almost no time.
func BenchmarkMemoryDrain(b *testing.B) {
	const jobs = 20_000
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d-workers", workers), func(b *testing.B) {
			var took samples
			var allocated allocation
			for b.Loop() {
				runtime.GC()
				var d time.Duration
				allocated = allocatedBy(jobs, func() { d = drainMemory(b, workers, jobs) })
				took = append(took, d)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.rate(jobs), "jobs/s")
			b.ReportMetric(float64(allocated.objects), "allocs/job")
			b.ReportMetric(float64(allocated.bytes), "B/job")
		})
	}
}

func drainMemory(b *testing.B, workers, jobs int) time.Duration {
	store, err := memorydriver.New(memorydriver.Options{KeepFinished: 1000})
	require.NoError(b, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: workers})
	require.NoError(b, err)
	require.NoError(b, q.Start(b.Context()))
	defer q.Close(b.Context())
	var running sync.WaitGroup
	running.Add(jobs)
	run := func(*storedTask) { running.Done() }
	runStored.Store(&run)
	begin := time.Now()
	for range jobs / 1000 {
		require.NoError(b, q.PutMany(b.Context(), newStoredTasks(1000)))
	}
	running.Wait()
	return time.Since(begin)
}
