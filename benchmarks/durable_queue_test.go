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

// full is set for the sizes that the bars name.
var full = flag.Bool("full", false, "give the baselines of durable queues as many jobs as our own, and the backlog its full size")

// durableQueue is what is asked of our queue in a database file, and of those
// that it is compared with. Its jobs call a function, and do nothing else.
type durableQueue interface {
	// put puts jobs, all of them in one transaction.
	put(ctx context.Context, jobs int) error
	// close is called when all jobs have run. It waits until the queue's
	// goroutines have ended.
	close() error
}

// durableSetup is what all durable queues are started with.
type durableSetup struct {
	path        string
	synchronous string // that pragma of SQLite: NORMAL or FULL
	workers     int
	run         func() // what the jobs call
}

// newDurableSetup names a new file and 8 workers.
func newDurableSetup(b testing.TB, synchronous string, run func()) durableSetup {
	return durableSetup{
		path:        filepath.Join(b.TempDir(), "jobs.db"),
		synchronous: synchronous,
		workers:     8,
		run:         run,
	}
}

type durableStart func(testing.TB, durableSetup) durableQueue

// durableQueues are ours and what it is compared with.
var durableQueues = []struct {
	name  string
	start durableStart
}{
	{"amboy", startAmboyFile},
	{"backlite", startBacklite},
	{"goqite", startGoqite},
}

// openDatabase opens the file of a baseline as our driver opens its own.
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

// countdown waits for a number of jobs. One that is run twice, as it may be, is
// counted twice.
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
