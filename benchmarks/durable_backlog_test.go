package benchmarks

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// BenchmarkDurableBacklog measures how many jobs per second pass through a queue in a database
// file, put 1,000 at a time, with 8 workers. The backlog is empty, or 10,000 jobs scheduled
// for next week, or 100,000 scheduled and 100,000 finished jobs. With -full the numbers are ten
// times larger, and the benchmark takes some minutes to prepare the files, of about 2 GB.
func BenchmarkDurableBacklog(b *testing.B) {
	size := 100_000
	if *full {
		size = 1_000_000
	}
	const passing = 1000
	var running *countdown
	run := func(*storedTask) { running.run() }
	runStored.Store(&run)
	runMany := func(q amboy.Queue, jobs int) time.Duration {
		running = newCountdown(jobs)
		return runThousands(b, q, running)
	}

	backlogs := []*durableBacklog{{}, {scheduled: size / 10}, {scheduled: size, finished: size}}
	for _, backlog := range backlogs {
		setup := newDurableSetup(b, "NORMAL", nil)
		backlog.queue = start(b, newAmboyFile(b, setup.workers, sqlite.Options{Path: setup.path, KeepFinished: 2 * size}))
		putScheduled(b, backlog.queue, backlog.scheduled)
		if backlog.finished > 0 {
			runMany(backlog.queue, backlog.finished)
		}
	}

	for b.Loop() {
		runtime.GC()
		for range 10 {
			for _, backlog := range backlogs {
				backlog.took = append(backlog.took, runMany(backlog.queue, passing))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, backlog := range backlogs {
		backlog.queue.Close(b.Context())
		b.ReportMetric(backlog.took.rate(passing), fmt.Sprintf("%d-scheduled-jobs/s", backlog.scheduled))
	}
	first, last := backlogs[0].took, backlogs[len(backlogs)-1].took
	b.ReportMetric(first.rate(passing)/last.rate(passing), "last/first")
}

// durableBacklog is a queue with scheduled and finished jobs.
type durableBacklog struct {
	scheduled, finished int
	queue               amboy.Queue
	took                samples
}

// putScheduled puts jobs that are due next week.
func putScheduled(b *testing.B, q amboy.Queue, jobs int) {
	due := time.Now().Add(7 * 24 * time.Hour)
	for jobs > 0 {
		tasks := newStoredTasks(min(jobs, 1000))
		for _, t := range tasks {
			t.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
		}
		require.NoError(b, q.PutMany(b.Context(), tasks))
		jobs -= len(tasks)
	}
}

// runThousands measures how long it takes to put and run the jobs of a countdown, 1,000 at a
// time.
func runThousands(b *testing.B, q amboy.Queue, running *countdown) time.Duration {
	begin := time.Now()
	for left := running.left.Load(); left > 0; left -= 1000 {
		require.NoError(b, q.PutMany(b.Context(), newStoredTasks(int(min(left, 1000)))))
	}
	<-running.done
	return time.Since(begin)
}
