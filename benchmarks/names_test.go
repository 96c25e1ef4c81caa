package benchmarks

import (
	"context"
	"database/sql"
	"flag"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var names = flag.Int("names", 90_000, "the number of names of BenchmarkNamesSeenOnce")

// BenchmarkNamesSeenOnce runs one job of each of 90,000 tenants in a group, and never hears of
// them again. The tenants come in waves, so that at most 3,000 queues are open at a time. It
// measures how long the names, and the first page of an Inspector, take to list while their jobs
// are kept, and what is left of them after the jobs were forgotten and the group was pruned: bytes
// on the heap for each, names in the store, and rows of all tables that were not there before.
func BenchmarkNamesSeenOnce(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		benchmarkNames(b, func() (driver.Driver, error) {
			return memorydriver.New(memorydriver.Options{KeepFinished: 1000})
		}, func() int { return 0 })
	})
	b.Run("sqlite", func(b *testing.B) {
		var path string
		benchmarkNames(b, func() (driver.Driver, error) {
			path = filepath.Join(b.TempDir(), "jobs.db")
			return sqlite.Open(b.Context(), sqlite.Options{Path: path})
		}, func() int { return countRows(b, path) })
	})
}

// countRows counts the rows of all tables of a database file.
func countRows(b *testing.B, path string) (all int) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	var counts string
	require.NoError(b, db.QueryRowContext(b.Context(), `SELECT group_concat('(SELECT count(*) FROM ' || name || ')', ' + ')
		FROM sqlite_master WHERE type = 'table'`).Scan(&counts))
	require.NoError(b, db.QueryRowContext(b.Context(), "SELECT "+counts).Scan(&all))
	return all
}

func benchmarkNames(b *testing.B, open func() (driver.Driver, error), rows func() int) {
	var kept, left, listed, paged, namesLeft, rowsLeft float64
	for b.Loop() {
		d, err := open()
		require.NoError(b, err)
		group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1},
			Workers:      8,
			TTL:          time.Second,
		})
		require.NoError(b, err)
		inspector, err := management.NewGroupInspector(group)
		require.NoError(b, err)
		rowsBefore := rows()
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
		began = time.Now()
		page, err := inspector.FindQueues(b.Context(), management.QueueFilter{}, management.PageRequest{})
		require.NoError(b, err)
		require.Len(b, page.Queues, management.DefaultLimit)
		paged = float64(time.Since(began).Microseconds()) / 1000

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
		rowsLeft = float64(rows() - rowsBefore)
		require.NoError(b, group.Close(b.Context()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(kept, "B/name-kept")
	b.ReportMetric(left, "B/name-left")
	b.ReportMetric(namesLeft, "names-left")
	b.ReportMetric(rowsLeft, "rows-left")
	b.ReportMetric(listed, "s/list")
	b.ReportMetric(paged, "ms/first-page")
}
