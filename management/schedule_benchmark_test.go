//go:build unix

package management_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// BenchmarkIdleSchedules is a look of a runner at 100,000 schedules, none of which is due. A
// runner looks every five seconds; the metric is the part of a core that this takes of the
// processor time of this process.
func BenchmarkIdleSchedules(b *testing.B) {
	for name, open := range map[string]func(*testing.B) driver.Driver{
		"memory": func(b *testing.B) driver.Driver {
			store, err := memory.New(memory.Options{KeepFinished: 1})
			require.NoError(b, err)
			return store
		},
		"sqlite": func(b *testing.B) driver.Driver {
			store, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
			require.NoError(b, err)
			return store
		},
		"postgres": func(b *testing.B) driver.Driver {
			store, err := postgres.Open(b.Context(), postgres.Options{Pool: pgtest.Pool(b), Schema: pgtest.EmptySchema(b)})
			require.NoError(b, err)
			return store
		},
	} {
		b.Run(name, func(b *testing.B) {
			group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
				DefaultQueue: queue.DriverQueueOptions{Driver: open(b), CloseDriver: true, NumWorkers: 1},
			})
			require.NoError(b, err)
			b.Cleanup(func() { assert.NoError(b, group.Close(ended())) })
			i, err := management.NewGroupInspector(group)
			require.NoError(b, err)
			r, err := management.NewScheduleRunner(i)
			require.NoError(b, err)
			storeIdleSchedules(b, group, managerOf(b, i))
			runtime.GC()
			before := processorTime(b)
			b.ResetTimer()
			for range b.N {
				next, err := r.PutDue(b.Context())
				require.NoError(b, err)
				require.True(b, next.After(time.Now()))
			}
			b.StopTimer()
			look := (processorTime(b) - before) / time.Duration(b.N)
			b.ReportMetric(100*look.Seconds()/5, "%core")
			b.ReportMetric(float64(look.Nanoseconds()), "cpu-ns/op")
		})
	}
}

// storeIdleSchedules stores 100,000 schedules that are due next year, as copies of the notes of one.
func storeIdleSchedules(b *testing.B, group amboy.QueueGroup, s management.ScheduleManager) {
	b.Helper()
	spec := hourly()
	spec.Cron = fmt.Sprintf("0 0 %d %d *", 1+(time.Now().Day()+20)%28, time.Now().AddDate(0, -1, 0).Month())
	spec.Type, spec.Outside = "outside", true
	_, err := s.CreateSchedule(b.Context(), "acme", "s0", spec)
	require.NoError(b, err)
	store, _ := queue.StoreOfGroup(group)
	for _, kind := range []string{"stored-schedule", "stored-schedule-hint"} {
		notes, readErr := store.Admin().Notes(b.Context(), driver.NoteRequest{Kind: kind, Limit: 2})
		require.NoError(b, readErr)
		require.Len(b, notes, 1)
		for batch := range 100 {
			var copies []driver.Note
			for n := range 1000 {
				name := fmt.Sprintf("s%d", 1000*batch+n)
				duplicate := notes[0]
				duplicate.Key = strings.TrimSuffix(duplicate.Key, "s0") + name
				duplicate.Value = bytes.ReplaceAll(duplicate.Value, []byte(`"s0"`), []byte(`"`+name+`"`))
				copies = append(copies, duplicate)
			}
			require.NoError(b, store.Admin().Keep(b.Context(), copies...))
		}
	}
	last, err := s.StoredSchedule(b.Context(), "acme", "s99999")
	require.NoError(b, err)
	require.True(b, last.Next.After(time.Now()))
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
