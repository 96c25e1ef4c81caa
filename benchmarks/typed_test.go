package benchmarks

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// typedRunning is the function that the typed task calls.
var typedRunning sync.WaitGroup

// typedTask defines the typed counterpart of the hand-written job of newTask.
var typedTask = job.Define("benchmark-task", 1, func(context.Context, int) error {
	typedRunning.Done()
	return nil
})

// makers create a job that reports its run.
var makers = map[string]func(tb testing.TB, n int) amboy.Job{
	"typed": func(tb testing.TB, n int) amboy.Job {
		j, err := typedTask.New(n)
		if err != nil {
			tb.Fatalf("making a job: %v", err)
		}
		return j
	},
	"hand-written": func(testing.TB, int) amboy.Job { return newTask(typedRunning.Done) },
}

// BenchmarkTypedDrain is BenchmarkDrain with 8 workers and jobs of a definition, compared with
// hand-written jobs: once without their creation, as in BenchmarkDrain, and once with it.
func BenchmarkTypedDrain(b *testing.B) {
	const jobs = 100_000
	running, making := map[string]samples{}, map[string]samples{}
	for b.Loop() {
		for name, newJob := range makers {
			runtime.GC()
			made, ran := drainMade(b, jobs, newJob)
			running[name] = append(running[name], ran)
			making[name] = append(making[name], made+ran)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name := range makers {
		b.ReportMetric(running[name].rate(jobs), name+"-jobs/s")
		b.ReportMetric(making[name].rate(jobs), name+"-made-jobs/s")
		b.ReportMetric(float64(drainAllocation(b, makers[name]).objects), name+"-allocs/job")
	}
	b.ReportMetric(running["typed"].rate(jobs)/running["hand-written"].rate(jobs), "x-hand-written")
	b.ReportMetric(making["typed"].rate(jobs)/making["hand-written"].rate(jobs), "made-x-hand-written")
}

// drainMade measures how long it takes to create jobs, and how long a new queue takes to accept
// and run them.
func drainMade(tb testing.TB, jobs int, newJob func(testing.TB, int) amboy.Job) (making, running time.Duration) {
	q := start(tb, queue.NewLocalLimitedSize(8, jobs))
	defer q.Close(tb.Context())
	typedRunning.Add(jobs)
	all := make([]amboy.Job, jobs)

	begin := time.Now()
	for i := range all {
		all[i] = newJob(tb, i)
	}
	made := time.Now()
	for _, j := range all {
		put(tb, q, j)
	}
	typedRunning.Wait()
	return made.Sub(begin), time.Since(made)
}

// drainAllocation returns the allocation of a job from its creation to the end of its run.
func drainAllocation(tb testing.TB, newJob func(testing.TB, int) amboy.Job) (allocated allocation) {
	const jobs = 20_000
	drainMade(tb, jobs, newJob)
	return allocatedBy(jobs, func() { drainMade(tb, jobs, newJob) })
}

func TestTypedJobMemory(t *testing.T) {
	typed, byHand := drainAllocation(t, makers["typed"]), drainAllocation(t, makers["hand-written"])
	require.NotZero(t, byHand.objects)
	assert.LessOrEqual(t, typed.objects, byHand.objects+3, "allocations for each job")
	t.Logf("typed %+v, written by hand %+v", typed, byHand)
}
