package benchmarks

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// BenchmarkScopes measures how many jobs a queue with 8 workers accepts and runs per second if
// 100 jobs share each scope.
func BenchmarkScopes(b *testing.B) {
	const jobs, scopes = 10_000, 100
	var took samples
	for b.Loop() {
		runtime.GC()
		took = append(took, drainScopes(b, jobs, scopes))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.rate(jobs), "jobs/s")
}

func drainScopes(b *testing.B, jobs, scopes int) time.Duration {
	q := start(b, queue.NewLocalLimitedSize(8, jobs))
	defer q.Close(b.Context())
	var running sync.WaitGroup
	running.Add(jobs)
	tasks := newTasks(jobs, running.Done)
	for i, t := range tasks {
		t.SetScopes([]string{strconv.Itoa(i % scopes)})
	}

	begin := time.Now()
	for _, t := range tasks {
		put(b, q, t)
	}
	running.Wait()
	return time.Since(begin)
}

// BenchmarkHeldScope measures the time from Put to the start of Run while 100,000 other jobs
// wait for a held scope, compared with a queue without waiting jobs. In both, one worker runs
// the holder of the scope.
func BenchmarkHeldScope(b *testing.B) {
	const waiting = 100_000
	crowded, release := startWithHolder(b, waiting)
	defer release()
	empty, release := startWithHolder(b, 0)
	defer release()

	var ours, theirs samples
	for b.Loop() {
		for range latencySamples {
			idle()
			ours = append(ours, queueLatency(b, crowded))
			idle()
			theirs = append(theirs, queueLatency(b, empty))
		}
	}
	b.ReportMetric(0, "ns/op")
	ours.reportLatency(b, "")
	theirs.reportLatency(b, "empty-")
	ours.reportLatencyRatio(b, theirs, "empty")
}

// startWithHolder starts a queue in which one job holds a scope until release is called, and a
// number of jobs wait for the scope. release closes the queue.
func startWithHolder(b *testing.B, waiting int) (q amboy.Queue, release func()) {
	scope := []string{"held"}
	q = start(b, queue.NewLocalLimitedSize(8, waiting+1024))
	started, ended := make(chan struct{}), make(chan struct{})
	holder := newTask(func() {
		close(started)
		<-ended
	})
	holder.SetScopes(scope)
	put(b, q, holder)
	<-started
	for _, t := range newTasks(waiting, func() {}) {
		t.SetScopes(scope)
		put(b, q, t)
	}
	return q, func() {
		close(ended)
		q.Close(b.Context())
	}
}
