package benchmarks

import (
	"context"
	"database/sql"
	"flag"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the "sqlite" driver of database/sql
)

// full selects the sizes that the README requires.
var full = flag.Bool("full", false, "give the baselines of durable queues as many jobs as our own, and the backlog its full size")

// durableQueue is the interface of amboy's queue in a database file and of the queues that it
// is compared with. Their jobs only call a function.
type durableQueue interface {
	// put puts jobs in one transaction.
	put(ctx context.Context, jobs int) error
	// close is called when all jobs have run. It waits until the queue's
	// goroutines have ended.
	close() error
}

// durableSetup holds the settings of a durable queue.
type durableSetup struct {
	path        string
	synchronous string // SQLite's pragma: NORMAL or FULL
	workers     int
	run         func() // the function that the jobs call
}

// newDurableSetup returns the settings for a new file and 8 workers.
func newDurableSetup(b testing.TB, synchronous string, run func()) durableSetup {
	return durableSetup{
		path:        filepath.Join(b.TempDir(), "jobs.db"),
		synchronous: synchronous,
		workers:     8,
		run:         run,
	}
}

type durableStart func(testing.TB, durableSetup) durableQueue

// durableQueues are amboy's queue and the queues that it is compared with.
var durableQueues = []struct {
	name  string
	start durableStart
}{
	{"amboy", startAmboyFile},
	{"backlite", startBacklite},
	{"goqite", startGoqite},
}

// openDatabase opens the file of a baseline with the settings of amboy's driver.
func openDatabase(tb testing.TB, setup durableSetup) *sql.DB {
	pragmas := url.Values{"_pragma": {
		"busy_timeout(5000)",
		"journal_mode(WAL)",
		"synchronous(" + setup.synchronous + ")",
		"wal_autocheckpoint(4000)",
		"temp_store(MEMORY)",
		"cache_size(-65536)",
	}}
	db, err := sql.Open("sqlite", "file:"+setup.path+"?"+pragmas.Encode())
	require.NoError(tb, err)
	return db
}

// countdown waits for a number of runs. A job that runs twice, which can happen, counts twice.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(jobs int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(jobs))
	return c
}

// run is called by each job.
func (c *countdown) run() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

func TestDurableQueuesRunEveryJob(t *testing.T) {
	const jobs = 50
	for _, subject := range durableQueues {
		t.Run(subject.name, func(t *testing.T) {
			running := newCountdown(jobs)
			q := subject.start(t, newDurableSetup(t, "NORMAL", running.run))
			for range jobs / 10 {
				require.NoError(t, q.put(t.Context(), 10))
			}
			<-running.done
			require.NoError(t, q.close())
		})
	}
}
