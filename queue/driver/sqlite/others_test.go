package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

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
