//go:build unix

package benchmarks

import (
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// BenchmarkTenants measures a group of queues in a database file, one per tenant, with 8
// workers in all. Idle measures how often 1,000 tenants without work query the store, and their
// processor time, over 10 seconds. Flooded measures the time from Put to the start of Run of
// one job of each of 99 tenants while another tenant has 100,000 waiting jobs.
func BenchmarkTenants(b *testing.B) {
	b.Run("idle", benchmarkIdleTenants)
	b.Run("flooded", benchmarkFloodedTenant)
}

func benchmarkIdleTenants(b *testing.B) {
	const tenants, period = 1000, 10 * time.Second
	d, group := startTenants(b)
	defer func() { require.NoError(b, group.Close(b.Context())) }()
	for i := range tenants {
		tenant(b, group, strconv.Itoa(i))
	}
	debug.FreeOSMemory() // so that the runtime does not do it during the measurement

	var watched, busy time.Duration
	calls := d.calls.Load()
	for b.Loop() {
		before := processorTime(b)
		<-time.After(period)
		busy += processorTime(b) - before
		watched += period
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(d.calls.Load()-calls)/watched.Seconds(), "queries/s")
	b.ReportMetric(100*busy.Seconds()/watched.Seconds(), "cpu-%")
}

func benchmarkFloodedTenant(b *testing.B) {
	const flood, quiet = 100_000, 99
	var drained, took samples
	for b.Loop() {
		drained = append(drained, runBesideFlood(b, flood, quiet, &took))
	}
	b.ReportMetric(0, "ns/op")
	took.reportLatency(b, "quiet-")
	b.ReportMetric(drained.rate(flood), "flood-jobs/s")
}

// runBesideFlood puts one job for each quiet tenant while another tenant's jobs run. It returns
// how long these take, and adds the times from Put to the start of Run of the quiet jobs to
// took.
func runBesideFlood(b *testing.B, flood, quiet int, took *samples) time.Duration {
	d, group := startTenants(b)
	defer func() { require.NoError(b, group.Close(b.Context())) }()
	running, latency := newCountdown(flood), make(chan time.Duration, 1)
	run := func(t *storedTask) {
		if t.Made == 0 {
			running.run()
		} else {
			latency <- t.sinceMade()
		}
	}
	runStored.Store(&run)
	release := floodTenant(b, d, group, flood)
	queues := make([]amboy.Queue, quiet)
	for i := range queues {
		queues[i] = tenant(b, group, strconv.Itoa(i))
	}

	begin := time.Now()
	release()
	for _, q := range queues {
		idleDurable()
		put(b, q, newStoredTask())
		*took = append(*took, <-latency)
	}
	if running.left.Load() <= 0 {
		b.Fatal("the jobs of the flooded tenant were over before those of the quiet ones")
	}
	<-running.done
	return time.Since(begin)
}

// startTenants creates a group without queues, in a new file.
func startTenants(b *testing.B) (*countingDriver, amboy.QueueGroup) {
	file, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
	require.NoError(b, err)
	d := &countingDriver{Driver: file}
	group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 8},
		Workers:      8,
	})
	require.NoError(b, err)
	return d, group
}

func tenant(b *testing.B, group amboy.QueueGroup, name string) amboy.Queue {
	q, err := group.Get(b.Context(), name)
	require.NoError(b, err)
	return q
}

// floodTenant puts jobs without a creation time into the queue of one tenant. None of them
// runs before release is called.
func floodTenant(b *testing.B, d driver.Driver, group amboy.QueueGroup, jobs int) (release func()) {
	const name = "flooded"
	pause := func(paused bool) {
		_, err := d.Control(b.Context(), name, driver.ControlChange{Paused: &paused})
		require.NoError(b, err)
	}
	pause(true)
	q := tenant(b, group, name)
	for range jobs / 1000 {
		tasks := newStoredTasks(1000)
		for _, t := range tasks {
			t.(*storedTask).Made = 0
		}
		require.NoError(b, q.PutMany(b.Context(), tasks))
	}
	return func() { pause(false) }
}
