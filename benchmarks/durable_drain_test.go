package benchmarks

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkDurableDrain measures how many no-op jobs a queue in a database file accepts, 1,000
// at a time, and runs per second, from the first Put to the last Run, with 8 workers. The
// baselines get 1,000 jobs and amboy gets 20,000, which favors the baselines: they slow down
// with the number of waiting jobs. With -full all get the same number. The bare loop gets 20,000
// too.
func BenchmarkDurableDrain(b *testing.B) {
	for _, synchronous := range []string{"NORMAL", "FULL"} {
		b.Run(synchronous, func(b *testing.B) { benchmarkDurableDrain(b, synchronous) })
	}
}

func benchmarkDurableDrain(b *testing.B, synchronous string) {
	rates, allocated := map[string]float64{}, map[string]allocation{}
	took := map[string]samples{}
	for b.Loop() {
		for _, subject := range durableQueues {
			jobs := 20_000
			if subject.name != "amboy" && !*full {
				jobs = 1000
			}
			runtime.GC()
			var d time.Duration
			allocated[subject.name] = allocatedBy(uint64(jobs), func() { d = drainDurable(b, subject.start, synchronous, jobs) })
			took[subject.name] = append(took[subject.name], d)
			rates[subject.name] = took[subject.name].rate(jobs)
		}
		runtime.GC()
		took["bare"] = append(took["bare"], drainBare(b, synchronous, 20_000))
		rates["bare"] = took["bare"].rate(20_000)
	}
	b.ReportMetric(0, "ns/op")
	for name, rate := range rates {
		b.ReportMetric(rate, name+"-jobs/s")
		if a, ok := allocated[name]; ok {
			b.ReportMetric(float64(a.objects), name+"-allocs/job")
			b.ReportMetric(float64(a.bytes), name+"-B/job")
		}
		if name != "amboy" {
			b.ReportMetric(rates["amboy"]/rate, "x-"+name)
		}
	}
}

// drainDurable measures how long a new queue takes to accept and run jobs, including their
// creation.
func drainDurable(b *testing.B, start durableStart, synchronous string, jobs int) time.Duration {
	const batch = 1000
	running := newCountdown(jobs)
	q := start(b, newDurableSetup(b, synchronous, running.run))

	begin := time.Now()
	for range jobs / batch {
		if err := q.put(b.Context(), batch); err != nil {
			b.Fatalf("putting jobs: %v", err)
		}
	}
	<-running.done
	took := time.Since(begin)

	require.NoError(b, q.close())
	return took
}
