package benchmarks

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// BenchmarkPutToComplete measures the time and the memory of one job, from its creation to its
// end, by sending jobs through a queue one at a time.
func BenchmarkPutToComplete(b *testing.B) {
	q := start(b, queue.NewLocalLimitedSize(1, 1024))
	defer q.Close(b.Context())
	sendOneByOne(b, q) // after which the queue does not grow

	var took samples
	var allocated allocation
	for b.Loop() {
		begin := time.Now()
		allocated = sendOneByOne(b, q)
		took = append(took, time.Since(begin))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(1e9/took.rate(jobsOneByOne), "ns/job")
	b.ReportMetric(float64(allocated.objects), "allocs/job")
	b.ReportMetric(float64(allocated.bytes), "B/job")
}

func TestPutToCompleteMemory(t *testing.T) {
	q := start(t, queue.NewLocalLimitedSize(1, 1024))
	defer q.Close(t.Context())
	sendOneByOne(t, q)

	allocated := sendOneByOne(t, q)

	assert.LessOrEqual(t, allocated.objects, uint64(4), "allocations for each job")
	assert.LessOrEqual(t, allocated.bytes, uint64(850), "bytes for each job")
}

const jobsOneByOne = 10_000

// allocation is the average allocation per job, rounded down as in package testing, because
// the runtime allocates a little by itself.
type allocation struct{ objects, bytes uint64 }

// allocatedBy measures the allocation per job while f runs.
func allocatedBy(jobs uint64, f func()) allocation {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return allocation{
		objects: (after.Mallocs - before.Mallocs) / jobs,
		bytes:   (after.TotalAlloc - before.TotalAlloc) / jobs,
	}
}

// sendOneByOne creates and puts jobs, each after the previous one has run.
func sendOneByOne(tb testing.TB, q amboy.Queue) allocation {
	ran := make(chan struct{}, 1)
	run := func() { ran <- struct{}{} }
	return allocatedBy(jobsOneByOne, func() {
		for range jobsOneByOne {
			put(tb, q, newTask(run))
			<-ran
		}
	})
}
