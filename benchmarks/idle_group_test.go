//go:build unix

package benchmarks

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// BenchmarkIdleGroup measures the cost of 10,000 idle queues of one group: processor time per
// second, bytes of heap and stacks, and goroutines.
func BenchmarkIdleGroup(b *testing.B) {
	const queues = 10_000
	goroutines := runtime.NumGoroutine()
	group, bytes := startIdleGroup(b, queues)
	defer func() { require.NoError(b, group.Close(b.Context())) }()
	goroutines = runtime.NumGoroutine() - goroutines
	debug.FreeOSMemory() // so that the runtime does not do it during the measurement

	var busy time.Duration
	for b.Loop() {
		before := processorTime(b)
		<-time.After(time.Second)
		busy += processorTime(b) - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(busy.Milliseconds())/float64(b.N), "cpu-ms/s")
	b.ReportMetric(bytes, "B/queue")
	b.ReportMetric(float64(goroutines)/queues, "goroutines/queue")
}

// BenchmarkMongoDBIdleGroup measures the processor time per second of 1,000 idle queues of one
// group in a MongoDB, including that of a server in this process.
func BenchmarkMongoDBIdleGroup(b *testing.B) {
	d := mongotest.Open(b)
	group, err := queue.NewMongoDBSingleQueueGroup(b.Context(), queue.MongoDBQueueGroupOptions{
		DefaultQueue: queue.MongoDBQueueOptions{
			DB:         &queue.MongoDBOptions{URI: d.URI(), DB: d.Database(), Collection: "benchmark"},
			NumWorkers: new(1),
		},
		BackgroundCreateFrequency: 10 * time.Second,
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, group.Close(b.Context())) }()
	for i := range 1000 {
		_, err = group.Get(b.Context(), strconv.Itoa(i))
		require.NoError(b, err)
	}
	debug.FreeOSMemory()
	var busy time.Duration
	for b.Loop() {
		before := processorTime(b)
		<-time.After(time.Second)
		busy += processorTime(b) - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(busy.Milliseconds())/float64(b.N), "cpu-ms/s")
}

func TestIdleGroupMemory(t *testing.T) {
	group, bytes := startIdleGroup(t, 1000)
	defer func() { require.NoError(t, group.Close(t.Context())) }()
	assert.LessOrEqual(t, bytes, 20.0*1024, "bytes for each idle queue")
}

// startIdleGroup creates a group whose queues have 2 workers each. It returns the bytes of heap
// and stacks that each queue uses.
func startIdleGroup(tb testing.TB, queues int) (group amboy.QueueGroup, bytes float64) {
	before := memoryInUse()
	group, err := queue.NewLocalQueueGroup(tb.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSize(2, 1024), nil
			},
		},
	})
	require.NoError(tb, err)
	for i := range queues {
		_, err = group.Get(tb.Context(), strconv.Itoa(i))
		require.NoError(tb, err)
	}
	return group, memoryInUse().since(before) / float64(queues)
}

// processorTime returns the processor time that the process has used.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
