package benchmarks

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

// backlogs are the ways in which jobs of a large backlog wait.
var backlogs = []struct {
	name string
	wait time.Duration
}{
	{"ready", 0},
	{"scheduled", time.Hour},
}

// BenchmarkBacklog measures how many jobs per second pass through a queue in which a million
// others wait, compared with an empty queue, and how many bytes of heap the queue uses per
// waiting job.
func BenchmarkBacklog(b *testing.B) {
	const waiting = 1_000_000
	for _, backlog := range backlogs {
		b.Run(backlog.name, func(b *testing.B) { benchmarkBacklog(b, waiting, backlog.wait) })
	}
}

func benchmarkBacklog(b *testing.B, waiting int, wait time.Duration) {
	const passing = 1000
	crowded, bytes := startWithBacklog(b, waiting, wait)
	defer crowded.Close(b.Context())
	empty, _ := startWithBacklog(b, 0, 0)
	defer empty.Close(b.Context())

	var ours, theirs samples
	for b.Loop() {
		for range 100 {
			ours = append(ours, passThrough(b, crowded, passing))
			theirs = append(theirs, passThrough(b, empty, passing))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(bytes, "B/job")
	b.ReportMetric(ours.rate(passing), "jobs/s")
	b.ReportMetric(theirs.rate(passing), "empty-jobs/s")
	b.ReportMetric(ours.rate(passing)/theirs.rate(passing), "x-empty")
}

func TestBacklogMemory(t *testing.T) {
	waiting := 1_000_000
	if testing.Short() {
		waiting = 100_000
	}
	for _, backlog := range backlogs {
		t.Run(backlog.name, func(t *testing.T) {
			q, bytes := startWithBacklog(t, waiting, backlog.wait)
			defer q.Close(t.Context())
			assert.LessOrEqual(t, bytes, 700.0, "bytes for each waiting job")
		})
	}
}

// startWithBacklog starts a queue without workers and puts jobs that are due after a wait. It
// returns the bytes of heap that the queue uses for each of them, without the job itself.
func startWithBacklog(tb testing.TB, waiting int, wait time.Duration) (q amboy.Queue, bytes float64) {
	due := time.Now().Add(wait)
	tasks := newTasks(waiting, func() {})
	for _, t := range tasks {
		t.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
	}

	before := memoryInUse()
	q = queue.NewLocalLimitedSize(1, waiting+10_000)
	require.NoError(tb, q.SetRunner(pool.NewNoop()))
	start(tb, q)
	for _, t := range tasks {
		put(tb, q, t)
	}
	bytes = memoryInUse().heapSince(before) / float64(max(waiting, 1))
	runtime.KeepAlive(tasks)
	return q, bytes
}

// passThrough measures how long it takes to put jobs and to run and complete the same number.
func passThrough(b *testing.B, q amboy.Queue, jobs int) time.Duration {
	ctx := b.Context()
	tasks := newTasks(jobs, func() {})

	begin := time.Now()
	for _, t := range tasks {
		put(b, q, t)
	}
	for range jobs {
		j := q.Next(ctx)
		j.Run(ctx)
		if err := q.Complete(ctx, j); err != nil {
			b.Fatalf("completing a job: %v", err)
		}
	}
	return time.Since(begin)
}
