//go:build unix

package benchmarks

import (
	"flag"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

var scheduled = flag.Int("scheduled", 10_000, "the number of jobs of BenchmarkScheduledTenants")

// BenchmarkScheduledTenants stores 10,000 jobs that become due within some seconds, one of each
// tenant or all of one tenant, and starts a process on the store. It measures the cost of a
// tenant in that process until its job is due, and how late the jobs run.
func BenchmarkScheduledTenants(b *testing.B) {
	for _, store := range []string{"memory", "sqlite"} {
		for _, tenants := range []int{1, *scheduled} {
			b.Run(store+"/"+strconv.Itoa(tenants), func(b *testing.B) { benchmarkScheduled(b, store, tenants) })
		}
	}
}

func benchmarkScheduled(b *testing.B, store string, tenants int) {
	const wait, span = 8 * time.Second, 5 * time.Second
	jobs := *scheduled
	var late samples
	var bytes, goroutines float64
	for b.Loop() {
		var d driver.Driver
		var err error
		if store == "memory" {
			d, err = memorydriver.New(memorydriver.Options{KeepFinished: 1000})
		} else {
			d, err = sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
		}
		require.NoError(b, err)
		var mu sync.Mutex
		running := newCountdown(jobs)
		run := func(t *storedTask) {
			took := t.sinceMade()
			mu.Lock()
			late = append(late, took)
			mu.Unlock()
			running.run()
		}
		runStored.Store(&run)
		first := time.Now().Add(wait)
		records := make([]*driver.Record, jobs)
		for i := range records {
			task := newStoredTask()
			due := first.Add(span * time.Duration(i) / time.Duration(jobs))
			task.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
			task.Made = due.UnixNano()
			r, badJob := registry.MakeJobInterchange(task, amboy.BSON)
			require.NoError(b, badJob)
			r.Group = strconv.Itoa(i % tenants)
			r.Name = r.Group + "." + r.Name
			records[i] = r
		}
		_, err = d.Insert(b.Context(), records)
		require.NoError(b, err)
		before, had := memoryInUse(), runtime.NumGoroutine()
		group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 2},
			Workers:      8,
		})
		require.NoError(b, err)
		<-time.After(time.Until(first.Add(-2 * time.Second)))
		bytes, goroutines = memoryInUse().since(before), float64(runtime.NumGoroutine()-had)
		<-running.done
		require.NoError(b, group.Close(b.Context()))
	}
	b.ReportMetric(0, "ns/op")
	late.reportLatency(b, "late-")
	if tenants > 1 {
		b.ReportMetric(bytes/float64(tenants), "B/tenant")
		b.ReportMetric(goroutines/float64(tenants), "goroutines/tenant")
	}
}
