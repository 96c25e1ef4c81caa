//go:build unix

package benchmarks

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// BenchmarkOpenQueues measures how many jobs of one tenant a group runs per second, put 1,000
// at a time, with 8 workers, while 10,000 other idle queues are open, and the ratio to the rate
// with no other open queue.
func BenchmarkOpenQueues(b *testing.B) {
	const jobs = 5000
	for name, open := range map[string]func(*testing.B) driver.Driver{
		"memory": func(b *testing.B) driver.Driver {
			store, err := memorydriver.New(memorydriver.Options{KeepFinished: 1000})
			require.NoError(b, err)
			return store
		},
		"sqlite": func(b *testing.B) driver.Driver {
			store, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db")})
			require.NoError(b, err)
			return store
		},
	} {
		b.Run(name, func(b *testing.B) {
			others := []int{0, 10_000}
			took := map[int]*samples{}
			queues := map[int]amboy.Queue{}
			var groups []amboy.QueueGroup
			defer func() {
				for _, group := range groups {
					require.NoError(b, group.Close(b.Context()))
				}
			}()
			for _, n := range others {
				took[n] = &samples{}
				group := openBeside(b, open(b), n)
				groups = append(groups, group)
				queues[n] = tenant(b, group, "busy")
			}
			for b.Loop() {
				for _, n := range others {
					runtime.GC()
					running := newCountdown(jobs)
					run := func(*storedTask) { running.run() }
					runStored.Store(&run)
					*took[n] = append(*took[n], runThousands(b, queues[n], running))
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, n := range others {
				b.ReportMetric(took[n].rate(jobs), fmt.Sprintf("jobs/s-beside-%d", n))
			}
			b.ReportMetric(took[10_000].rate(jobs)/took[0].rate(jobs), "of-one")
		})
	}
}

// openBeside opens a group with a busy queue of 8 workers, and other queues of one worker each.
func openBeside(b *testing.B, store driver.Driver, others int) amboy.QueueGroup {
	group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
		PerQueue:     map[string]queue.DriverQueueOptions{"busy": {NumWorkers: 8}},
		Workers:      8,
	})
	require.NoError(b, err)
	for i := range others {
		tenant(b, group, strconv.Itoa(i))
	}
	<-time.After(time.Second) // in which the group handles the notifications of their opening
	return group
}
