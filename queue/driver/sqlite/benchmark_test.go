package sqlite_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// newRecord is the record of a job that runs a command.
func newRecord(tb testing.TB, id string) *driver.Record {
	tb.Helper()
	j := job.NewShellJob("echo", "")
	j.SetID(id)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: time.Now()})
	r, err := registry.MakeJobInterchange(j, amboy.BSON2)
	require.NoError(tb, err)
	return r
}

// BenchmarkLife inserts records 1,000 at a time, has one goroutine claim them 8
// at a time, and 8 complete them one by one.
func BenchmarkLife(b *testing.B) {
	const records, workers = 20_000, 8
	for _, synchronous := range []string{sqlite.SynchronousNormal, sqlite.SynchronousFull} {
		b.Run(synchronous, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				all := make([]*driver.Record, records)
				for i := range all {
					all[i] = newRecord(b, fmt.Sprint("job-", i))
				}
				d := open(b, sqlite.Options{Path: newPath(b), Synchronous: synchronous})
				b.StartTimer()
				insertAll(b, d, all)
				completeAll(b, d, len(all), workers)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func insertAll(b *testing.B, d *sqlite.Driver, all []*driver.Record) {
	b.Helper()
	for len(all) > 0 {
		errs, err := d.Insert(b.Context(), all[:1000])
		require.NoError(b, err)
		for _, err := range errs {
			require.NoError(b, err)
		}
		all = all[1000:]
	}
}

func completeAll(b *testing.B, d *sqlite.Driver, n, workers int) {
	b.Helper()
	claimed := make(chan *driver.Record, workers)
	var ended sync.WaitGroup
	for range workers {
		ended.Go(func() {
			for r := range claimed {
				completion := driver.Completion{Lease: driver.LeaseOf(r), Record: r}
				r.Status.Completed, r.Status.InProgress = true, false
				r.TimeInfo.End = time.Now()
				errs, err := d.Complete(context.Background(), []driver.Completion{completion})
				if assert.NoError(b, err) {
					assert.NoError(b, errs[0])
				}
			}
		})
	}
	for n > 0 {
		batch, err := d.Claim(b.Context(), driver.ClaimRequest{Owner: "bench", Limit: workers, Now: time.Now()})
		require.NoError(b, err)
		n -= len(batch.Records)
		for _, r := range batch.Records {
			claimed <- r
		}
	}
	close(claimed)
	ended.Wait()
}
