//go:build unix

package benchmarks

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// BenchmarkScopedDrain measures how many jobs that share scopes a queue over a store accepts, 1,000 at a time, and runs per
// second with 8 workers, from the first Put to the last Run: each job with a scope of its own, and all with the same one.
func BenchmarkScopedDrain(b *testing.B) {
	for name, open := range storesFor("") {
		for kind, scopes := range map[string]int{"own-scopes": 5000, "one-scope": 1} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				const jobs = 5000
				var took, put samples
				var allocated allocation
				for b.Loop() {
					store := open(b)
					runtime.GC()
					allocated = allocatedBy(jobs, func() {
						putting, all := drainScoped(b, store, jobs, scopes)
						put, took = append(put, putting), append(took, all)
					})
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(took.rate(jobs), "jobs/s")
				b.ReportMetric(put.rate(jobs), "puts/s")
				b.ReportMetric(float64(allocated.objects), "allocs/job")
				b.ReportMetric(float64(allocated.bytes), "B/job")
			})
		}
	}
}

// drainScoped measures how long a new queue takes to accept jobs that share a number of scopes, and to run them.
func drainScoped(b *testing.B, store driver.Driver, jobs, scopes int) (putting, all time.Duration) {
	const batch = 1000
	running := newCountdown(jobs)
	run := func(*storedTask) { running.run() }
	runStored.Store(&run)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 8})
	require.NoError(b, err)
	start(b, q)
	begin := time.Now()
	for first := 0; first < jobs; first += batch {
		tasks := newStoredTasks(batch)
		for i, t := range tasks {
			t.SetScopes([]string{strconv.Itoa((first + i) % scopes)})
		}
		require.NoError(b, q.PutMany(b.Context(), tasks))
	}
	putting = time.Since(begin)
	<-running.done
	all = time.Since(begin)
	q.Close(b.Context())
	return putting, all
}
