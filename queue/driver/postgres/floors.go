package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// A floor is raised when a claim had to pass so many jobs that are not ready: at once, but
// not more often than each interval. Each raise leaves a dead row while a snapshot is held.
const (
	manyPassed   = 1024
	somePassed   = 256
	manyInterval = 50 * time.Millisecond
	someInterval = time.Second
	// raiseTime is how long a raise waits for inserts that are under way. Others wait behind it.
	raiseTime = "20ms"
)

// line is one whose floor may be raised.
type line struct{ id, queue int32 }

// floors raises the floors of lines, one at a time.
type floors struct {
	d    *Driver
	ctx  context.Context // ends when the driver is closed
	stop context.CancelFunc

	mu     sync.Mutex
	raised map[int32]time.Time // when each was raised last
	asked  map[line]bool
	busy   bool
	all    sync.WaitGroup
}

func newFloors(d *Driver) *floors {
	f := &floors{d: d, raised: map[int32]time.Time{}, asked: map[line]bool{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// passed takes note that a claim of a line began so far above its floor.
func (f *floors) passed(l line, by int64) {
	if by < somePassed {
		return
	}
	interval := someInterval
	if by >= manyPassed {
		interval = manyInterval
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || time.Since(f.raised[l.id]) < interval {
		return
	}
	f.raised[l.id] = time.Now()
	f.asked[l] = true
	if !f.busy {
		f.busy = true
		f.all.Go(f.run)
	}
}

// run raises what was asked for, and ends.
func (f *floors) run() {
	for {
		l, more := f.next()
		if !more {
			return
		}
		err := f.raise(l)
		// If inserts or changes were under way for too long, another claim asks again.
		if err != nil && codeOf(err) != codeLockNotAvailable && f.ctx.Err() == nil {
			logging.Warning(f.ctx, message.Fields{
				"message": "could not raise the floor of a line; its claims take longer meanwhile",
				"schema":  f.d.opts.Schema,
				"error":   err.Error(),
			})
		}
	}
}

func (f *floors) next() (l line, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l = range f.asked {
		delete(f.asked, l)
		return l, true
	}
	f.busy = false
	return line{}, false
}

// raise raises a floor to the first job of the line that is ready. Nobody who could make an
// earlier one ready is at it then: changes hold the lock of the queue, and inserts theirs.
// Claims that are under way are no matter: their jobs look ready until they are committed.
func (f *floors) raise(l line) error {
	d := f.d
	return pgx.BeginFunc(f.ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(f.ctx, `SELECT set_config('lock_timeout', $1, true), set_config('synchronous_commit', 'off', true)`, raiseTime)
		for _, key := range []int64{d.lockKey(lockOfQueue, l.queue), d.lockKey(lockOfInserts, l.queue), d.lockKey(lockOfPromotions, 0)} {
			if err == nil {
				_, err = tx.Exec(f.ctx, `SELECT pg_advisory_xact_lock($1)`, key)
			}
		}
		if err == nil {
			_, err = tx.Exec(f.ctx, d.texts[raiseFloor], l.id)
		}
		return err
	})
}

func (f *floors) close() {
	f.mu.Lock()
	f.stop()
	f.mu.Unlock()
	f.all.Wait()
}
