package benchmarks

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BenchmarkDurablePut measures how many jobs per second 8 goroutines put one by one into a
// database file while 8 workers run them. The baselines get a tenth of the jobs, or the same
// number with -full.
func BenchmarkDurablePut(b *testing.B) {
	const putters = 8
	rates, took := map[string]float64{}, map[string]samples{}
	for b.Loop() {
		for _, subject := range durableQueues {
			each := 500
			if subject.name != "amboy" && !*full {
				each = 50
			}
			runtime.GC()
			took[subject.name] = append(took[subject.name], putOneByOne(b, subject.start, "NORMAL", putters, each))
			rates[subject.name] = took[subject.name].rate(putters * each)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, rate := range rates {
		b.ReportMetric(rate, name+"-puts/s")
		if name != "amboy" {
			b.ReportMetric(rates["amboy"]/rate, "x-"+name)
		}
	}
}

// BenchmarkDurablePutFull measures how many jobs per second 8 goroutines put one by one, and one
// goroutine, while each commit waits for the disk. Puts at the same time share a commit.
func BenchmarkDurablePutFull(b *testing.B) {
	const each = 250
	var one, eight samples
	for b.Loop() {
		runtime.GC()
		one = append(one, putOneByOne(b, startAmboyFile, "FULL", 1, each))
		eight = append(eight, putOneByOne(b, startAmboyFile, "FULL", 8, each))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(one.rate(each), "1-puts/s")
	b.ReportMetric(eight.rate(8*each), "8-puts/s")
	b.ReportMetric(eight.rate(8*each)/one.rate(each), "8-x-1")
}

// putOneByOne measures how long goroutines take to put a number of jobs each.
func putOneByOne(b *testing.B, start durableStart, synchronous string, putters, each int) time.Duration {
	running := newCountdown(putters * each)
	q := start(b, newDurableSetup(b, synchronous, running.run))

	begin := time.Now()
	var putting sync.WaitGroup
	for range putters {
		putting.Go(func() {
			for range each {
				if !assert.NoError(b, q.put(b.Context(), 1)) {
					return
				}
			}
		})
	}
	putting.Wait()
	took := time.Since(begin)

	<-running.done
	require.NoError(b, q.close())
	return took
}
