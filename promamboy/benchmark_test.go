package promamboy_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

var (
	benchmarkJobs   = flag.Int("metrics-jobs", 1_000_000, "number of jobs of BenchmarkScrape")
	benchmarkEnded  = flag.Int("metrics-ended", 0, "number of them that have ended")
	benchmarkQueues = flag.Int("metrics-queues", 1000, "number of queues of BenchmarkScrape")
)

// BenchmarkScrape scrapes a store with many jobs. The deepest queues, of which the oldest job
// is found, are put last, behind all other jobs. No read is shared. Meanwhile the jobs of the file are
// counted by type in the background, once.
func BenchmarkScrape(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) (driver.Driver, error){
		"memory":   func(*testing.B) (driver.Driver, error) { return memory.New(memory.Options{KeepFinished: 1}) },
		"sqlite":   func(b *testing.B) (driver.Driver, error) { return databases["sqlite"](b) },
		"postgres": func(b *testing.B) (driver.Driver, error) { return databases["postgres"](b) },
	} {
		b.Run(name, func(b *testing.B) {
			store, err := open(b)
			require.NoError(b, err)
			inspector, closeGroup := fill(b, store)
			defer closeGroup()
			b.ResetTimer()
			slowest := time.Duration(0)
			for b.Loop() {
				begin := time.Now()
				var handler http.Handler
				handler, err = promamboy.Handler(inspector, promamboy.Options{Queues: 20})
				require.NoError(b, err)
				require.Contains(b, scrape(b, handler), "amboy_store_up 1")
				slowest = max(slowest, time.Since(begin))
			}
			begin := time.Now()
			_, err = store.CountTypes(b.Context())
			require.NoError(b, err)
			b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, "ms-count-by-type")
			b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest")
		})
	}
}

// fill puts jobs in the queues of a store. Nothing runs them.
func fill(b *testing.B, store driver.Driver) (management.Inspector, func()) {
	b.Helper()
	group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
		DefaultQueue:              queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
		BackgroundCreateFrequency: queue.NoBackgroundCreate,
	})
	require.NoError(b, err)
	const batch = 1000
	template := newRecord(b)
	template.ForgetAt = time.Now().Add(time.Hour)
	for first := 0; first < *benchmarkJobs; first += batch {
		records := make([]*driver.Record, batch)
		for n := range records {
			r, id := *template, fmt.Sprint("job-", first+n)
			r.Group = fmt.Sprint("tenant-", first/batch**benchmarkQueues/(*benchmarkJobs/batch))
			if first+n < *benchmarkEnded { // the oldest have ended
				r.Status.Completed, r.TimeInfo.Start, r.TimeInfo.End = true, r.TimeInfo.Created, r.TimeInfo.Created
			}
			r.Name = driver.RecordName(r.Group, id, amboy.JobRetryInfo{})
			if n%2 == 0 && first+n < *benchmarkJobs*9/10 { // the others are ready
				r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
			}
			records[n] = &r
		}
		_, err = store.Insert(b.Context(), records)
		require.NoError(b, err)
	}
	inspector, err := management.NewGroupInspector(group)
	require.NoError(b, err)
	return inspector, func() { require.NoError(b, group.Close(context.Background())) }
}

func newRecord(b *testing.B) *driver.Record {
	b.Helper()
	j, err := visit.New("")
	require.NoError(b, err)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: time.Now()})
	r, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(b, err)
	return r
}
