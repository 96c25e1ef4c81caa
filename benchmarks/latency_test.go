package benchmarks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// BenchmarkStartLatency measures the time from Put to the start of Run in an idle queue, and
// the time from Go to the start of the task in an idle pool of package pond. The two alternate,
// job by job.
func BenchmarkStartLatency(b *testing.B) {
	q := start(b, queue.NewLocalLimitedSize(8, 1024))
	defer q.Close(b.Context())
	p, err := startPondPool(8)
	require.NoError(b, err)
	defer func() { require.NoError(b, p.close()) }()

	var ours, theirs samples
	for b.Loop() {
		for range latencySamples {
			idle()
			ours = append(ours, queueLatency(b, q))
			idle()
			theirs = append(theirs, poolLatency(b, p))
		}
	}
	b.ReportMetric(0, "ns/op")
	ours.reportLatency(b, "")
	theirs.reportLatency(b, "pond-")
	ours.reportLatencyRatio(b, theirs, "pond")
}

// latencySamples is the number of samples of each subject in one iteration of a latency
// benchmark, which takes about a second.
const latencySamples = 1000

// idle waits until all workers sleep.
func idle() { <-time.After(500 * time.Microsecond) }

// queueLatency measures the time from Put to the start of Run.
func queueLatency(b *testing.B, q amboy.Queue) time.Duration {
	started := make(chan time.Time, 1)
	t := newTask(func() { started <- time.Now() })

	begin := time.Now()
	put(b, q, t)
	return (<-started).Sub(begin)
}

// poolLatency is queueLatency for a baseline.
func poolLatency(b *testing.B, p workerPool) time.Duration {
	started := make(chan time.Time, 1)
	run := func() { started <- time.Now() }

	begin := time.Now()
	if err := p.submit(run); err != nil {
		b.Fatalf("submitting a task: %v", err)
	}
	return (<-started).Sub(begin)
}
