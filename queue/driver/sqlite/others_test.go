package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// The system does not watch a directory any more after it was moved.
func TestChangesOfOthersAreNoticedAfterTheDirectoryWasMovedAwayAndBack(t *testing.T) {
	needsRenaming(t)
	dir := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "jobs.db")
	d, other := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.Rename(dir+".away", dir))
	noticed := make(chan struct{})
	notice := sync.OnceFunc(func() { close(noticed) })
	defer d.Subscribe(func(driver.Change) { notice() })()
	insert(t, other, newRecord(t, "job"))
	select {
	case <-noticed:
	case <-time.After(10 * time.Second):
		assert.Fail(t, "the change of the other driver was not noticed")
	}
}

// While a process always had another change to write, it did not check for those of other
// processes, so that their jobs waited for the next pause.
func TestChangesOfOthersWentUnnoticedWhileAWriterHadNoPause(t *testing.T) {
	path := newPath(t)
	busy, other := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	var over atomic.Bool
	noticed := make(chan struct{})
	notice := sync.OnceFunc(func() { close(noticed) })
	var writes sync.WaitGroup
	var last atomic.Int64
	write := func() {
		r := newRecord(t, fmt.Sprint(last.Add(1)))
		writes.Go(func() { insert(t, busy, r) })
	}
	putByOther := sync.OnceFunc(func() { insert(t, other, newRecord(t, "other")) })
	// The writer of busy calls this between two transactions.
	cancel := busy.Subscribe(func(c driver.Change) {
		switch {
		case over.Load():
		case c == driver.Anywhere:
			notice()
		default:
			putByOther()
			write()
			sqlite.AwaitPending(busy, 1)
		}
	})
	defer cancel()
	write()
	select {
	case <-noticed:
	case <-time.After(10 * time.Second):
		assert.Fail(t, "the change of the other driver was not noticed", "after %d changes of its own", last.Load())
	}
	over.Store(true)
	writes.Wait()
}
