package benchmarks

import (
	"context"
	"flag"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var names = flag.Int("names", 90_000, "the number of names of BenchmarkNamesSeenOnce")

// BenchmarkNamesSeenOnce runs one job of each of 90,000 tenants in a group, and never hears of
// them again. The tenants come in waves, so that at most 3,000 queues are open at a time. It measures how long the names take to list while their jobs are kept, and what
// is left of them after the jobs were forgotten and the group was pruned: bytes on the heap for
// each, and names in the store.
func BenchmarkNamesSeenOnce(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		benchmarkNames(b, func() (driver.Driver, error) {
			return memorydriver.New(memorydriver.Options{KeepFinished: 1000})
		})
	})
	b.Run("sqlite", func(b *testing.B) {
		benchmarkNames(b, func() (driver.Driver, error) {
			return sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
		})
	})
}

func benchmarkNames(b *testing.B, open func() (driver.Driver, error)) {
	var kept, left, listed, namesLeft float64
	for b.Loop() {
		d, err := open()
		require.NoError(b, err)
		group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1},
			Workers:      8,
			TTL:          time.Second,
		})
		require.NoError(b, err)
		const wave = 3000
		pruner := group.(interface{ Prune(context.Context) error })
		seen := func(from, to int) {
			running := newCountdown(to - from)
			run := func(*storedTask) { running.run() }
			runStored.Store(&run)
			for i := from; i < to; i++ {
				put(b, tenant(b, group, strconv.Itoa(i)), newStoredTask())
			}
			<-running.done
			for group.Len() > 0 {
				<-time.After(100 * time.Millisecond)
			}
		}
		seen(0, wave) // what grows with the largest number of open queues does so now
		before := memoryInUse()
		for from := wave; from < *names; from += wave {
			seen(from, min(from+wave, *names))
		}
		kept = memoryInUse().heapSince(before) / float64(*names)
		began := time.Now()
		group.Queues(b.Context())
		listed = time.Since(began).Seconds()

		for forgotten := 1000; forgotten == 1000; {
			forgotten, err = d.Forget(b.Context(), time.Now().Add(1000*time.Hour), 1000)
			require.NoError(b, err)
		}
		<-time.After(1100 * time.Millisecond)
		require.NoError(b, pruner.Prune(b.Context()))
		left = memoryInUse().heapSince(before) / float64(*names)
		infos, err := d.Queues(b.Context(), driver.QueueRequest{})
		require.NoError(b, err)
		namesLeft = float64(len(infos))
		require.NoError(b, group.Close(b.Context()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(kept, "B/name-kept")
	b.ReportMetric(left, "B/name-left")
	b.ReportMetric(namesLeft, "names-left")
	b.ReportMetric(listed, "s/list")
}
