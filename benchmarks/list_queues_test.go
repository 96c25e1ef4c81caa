package benchmarks

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

var jobsListed = flag.Int("jobs-listed", 1, "the number of jobs in each queue of BenchmarkListQueues")

// BenchmarkListQueues lists queues of a store that has 100 or 40,000. One in eight is paused and has
// ready jobs, the others have scheduled jobs. It reads the first page and one in the middle, with 50
// queues, as the driver returns them and as an Inspector does, which adds the oldest job of each. For
// comparison it lists all, and sums up all of them. With -jobs-listed=25 the store has a million jobs.
func BenchmarkListQueues(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) (driver.Driver, error){
		"memory": func(*testing.B) (driver.Driver, error) {
			return memorydriver.New(memorydriver.Options{KeepFinished: 1000})
		},
		"sqlite": func(b *testing.B) (driver.Driver, error) {
			return sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
		},
		"postgres": func(b *testing.B) (driver.Driver, error) {
			server, err := pgtest.Start(pgtest.Options{})
			if err != nil {
				b.Skip(err)
			}
			b.Cleanup(func() { require.NoError(b, server.Stop()) })
			return postgres.Open(b.Context(), postgres.Options{URL: server.URL()})
		},
	} {
		b.Run(name, func(b *testing.B) {
			for _, queues := range []int{100, 40_000} {
				b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
					d, err := open(b)
					require.NoError(b, err)
					fillQueues(b, d, queues)
					listQueues(b, d, queues)
				})
			}
		})
	}
}

func fillQueues(b *testing.B, d driver.Driver, queues int) {
	b.Helper()
	const atOnce = 1000
	tenant := func(n int) string { return fmt.Sprintf("tenant-%05d", n) }
	for n := 0; n < queues; n += 8 {
		_, err := d.Control(b.Context(), tenant(n), driver.ControlChange{Paused: new(true)})
		require.NoError(b, err)
	}
	for from := 0; from < queues**jobsListed; from += atOnce {
		var records []*driver.Record
		for n := from; n < min(from+atOnce, queues**jobsListed); n++ {
			task := newStoredTask()
			times := amboy.JobTimeInfo{Created: time.Now()}
			if n%queues%8 != 0 {
				times.WaitUntil = times.Created.Add(time.Hour)
			}
			task.UpdateTimeInfo(times)
			r, err := registry.MakeJobInterchange(task, amboy.BSON2)
			require.NoError(b, err)
			r.Group = tenant(n % queues)
			r.Name = driver.RecordName(r.Group, task.ID(), r.RetryInfo)
			records = append(records, r)
		}
		errs, err := d.Insert(b.Context(), records)
		require.NoError(b, errors.Join(append(errs, err)...))
	}
}

func listQueues(b *testing.B, d driver.Driver, queues int) {
	// No job can start now.
	q, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, q.Close(b.Context())) }()
	inspector, err := management.NewGroupInspector(q)
	require.NoError(b, err)
	ctx := b.Context()
	half := fmt.Sprintf("tenant-%05d", queues/2)
	for _, call := range []struct {
		name string
		want int
		call func() (int, error)
	}{
		{"first page", 50, func() (int, error) {
			infos, err := d.Queues(ctx, driver.QueueRequest{Limit: 50})
			return len(infos), err
		}},
		{"page in the middle", 50, func() (int, error) {
			infos, err := d.Queues(ctx, driver.QueueRequest{From: half, Limit: 50})
			return len(infos), err
		}},
		{"all", queues, func() (int, error) {
			infos, err := d.Queues(ctx, driver.QueueRequest{})
			return len(infos), err
		}},
		{"sum", queues, func() (int, error) {
			totals, err := d.SumQueues(ctx, 15)
			return totals.Queues, err
		}},
		{"inspector, first page", 50, func() (int, error) {
			page, err := inspector.FindQueues(ctx, management.QueueFilter{}, management.PageRequest{})
			return len(page.Queues), err
		}},
		{"inspector, sum", queues, func() (int, error) {
			totals, err := inspector.SumQueues(ctx)
			return totals.Queues, err
		}},
		{"inspector, all", queues, func() (int, error) {
			all, err := inspector.Queues(ctx)
			return len(all), err
		}},
	} {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n, err := call.call()
				require.NoError(b, err)
				require.Equal(b, call.want, n)
			}
		})
	}
}
