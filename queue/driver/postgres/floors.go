package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

const (
	// manyPassed is the number of places that a claim skips before the floor of its line is
	// raised. While a snapshot is held, each raise leaves a dead row.
	manyPassed = 256
	// fewPassed is the number of places after which a floor is raised that was not raised for quietInterval. A claim
	// takes less time the fewer places it skips, and a line with few jobs takes long to reach manyPassed.
	fewPassed     = 16
	quietInterval = time.Second
	// raiseInterval is the minimum interval between raises of a line, and maxRaiseInterval the
	// longest that follows raises which an insert has kept from being made: it may be part of a
	// transaction that stays open, and each try keeps other inserts waiting.
	raiseInterval    = 5 * time.Millisecond
	maxRaiseInterval = time.Second
	// raiseTime is how long a raise waits for inserts that are under way. Others wait behind it.
	raiseTime = "20ms"
)

// line is a line whose floor may be raised.
type line struct{ id, queue int32 }

// floors raises the floors of lines and adds up tallies, in one goroutine.
type floors struct {
	d *Driver
	background

	raises map[int32]raises // by line
	asked  map[line]bool
	busy   bool
	// tallies is the number of rows that this driver has added to the table of tallies since it last added
	// them up, and changed contains their queues. others is true if rows of other processes are to be added
	// up.
	tallies int
	changed map[int32]struct{}
	others  bool

	from int32 // the queue with which the next foldLeft begins; used by run
}

// raises is when a line may be raised again, and the interval before that.
type raises struct {
	next     time.Time
	interval time.Duration
}

// follow makes the next raise wait.
func (r raises) follow(blocked bool) raises {
	if blocked {
		r.interval = min(max(2*r.interval, raiseInterval), maxRaiseInterval)
	} else {
		r.interval = raiseInterval
	}
	r.next = time.Now().Add(r.interval)
	return r
}

func newFloors(d *Driver) *floors {
	f := &floors{d: d, raises: map[int32]raises{}, asked: map[line]bool{}, changed: map[int32]struct{}{}}
	f.init()
	return f
}

// isDue reports whether a floor is to be raised that is so many places behind.
func (r raises) isDue(by int64) bool {
	if by < manyPassed {
		return by >= fewPassed && !time.Now().Before(r.next.Add(quietInterval))
	}
	return !time.Now().Before(r.next)
}

// passed records how far above its floor a claim of a line began.
func (f *floors) passed(l line, by int64) {
	if by < fewPassed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || !f.raises[l.id].isDue(by) {
		return
	}
	f.asked[l] = true
	f.begin()
}

// begin starts run if it is not running.
func (f *floors) begin() {
	if !f.busy {
		f.busy = true
		f.all.Go(f.run)
	}
}

// manyTallies is the number of rows after which tallies are added up, and talliesAtOnce the
// maximum number of rows of one statement.
const (
	manyTallies   = 2000
	talliesAtOnce = 5000
)

// tallied records that a statement has added a row for each of some queues to the table of tallies.
func (f *floors) tallied(queues ...int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, queue := range queues {
		if i == 0 || queue != queues[i-1] {
			f.changed[queue] = struct{}{}
			f.tallies++
		}
	}
	if f.tallies >= manyTallies && f.ctx.Err() == nil {
		f.begin()
	}
}

// talliedByOthers requests that the tallies of other processes be added up, which may have died.
func (f *floors) talliedByOthers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others = true
	if f.ctx.Err() == nil {
		f.begin()
	}
}

// fold adds up the tallies of the given queues, except of those whose rows would hardly become fewer.
func (f *floors) fold(queues []int32) error {
	for {
		var read, left int
		err := f.send(func(b *batch) {
			b.plan()
			b.query(foldTallies, func(r *row) error {
				read, left = r.int(), r.int()
				return nil
			}, talliesAtOnce, queues)
		})
		if err != nil || read < talliesAtOnce || left > read/2 {
			return err
		}
	}
}

// foldLeft adds up the tallies of all queues that have more rows than they need, from the queue on at which the
// last call ended. It ends when a statement no longer halves the number of the rows that it writes.
func (f *floors) foldLeft() error {
	for {
		var read, left, seen int
		var last int32
		err := f.send(func(b *batch) {
			b.plan()
			b.query(foldLeft, func(r *row) error {
				read, left, seen, last = r.int(), r.int(), r.int(), r.key()
				return nil
			}, talliesAtOnce, f.from)
		})
		if err != nil {
			return err
		}
		switch {
		case seen < talliesAtOnce:
			f.from = 0
			return nil
		case last == f.from: // it has more rows than one statement reads
			f.from++
		default:
			f.from = last
		}
		if read == 0 || left > read/2 {
			return nil
		}
	}
}

// run handles the requests, and ends when there are none.
func (f *floors) run() {
	for handle := f.next(); handle != nil; handle = f.next() {
		err := handle()
		// If inserts or changes take too long, a later claim requests the raise again.
		if err != nil && pgconnect.CodeOf(err) != pgconnect.CodeLockNotAvailable && f.ctx.Err() == nil {
			logging.Warning(f.ctx, message.Fields{
				"message": "could not raise the floor of a line, or add up tallies; claims or counts take longer meanwhile",
				"schema":  f.d.opts.Schema,
				"error":   err.Error(),
			})
		}
	}
}

// raised records that a raise has ended. Claims that have asked for another one meanwhile ask again.
func (f *floors) raised(l line, blocked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raises[l.id] = f.raises[l.id].follow(blocked)
	delete(f.asked, l)
}

// next returns a function that handles the next request; nil if there is none.
func (f *floors) next() (handle func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tallies >= manyTallies {
		queues := slices.Collect(maps.Keys(f.changed))
		f.tallies = 0
		clear(f.changed)
		return func() error { return f.fold(queues) }
	}
	if f.others {
		f.others = false
		return f.foldLeft
	}
	for l := range f.asked {
		delete(f.asked, l)
		return func() error {
			err := f.raise(l)
			f.raised(l, pgconnect.CodeOf(err) == pgconnect.CodeLockNotAvailable)
			return err
		}
	}
	f.busy = false
	return nil
}

// raise raises a floor to the first ready job of its line. Its locks exclude everything that could
// make an earlier job ready: changes hold the lock of the queue, and inserts theirs. Concurrent
// claims do no harm, because their jobs look ready until they are committed.
func (f *floors) raise(l line) error {
	d := f.d
	return f.send(func(b *batch) {
		b.exec(lockLine, raiseTime, d.lockKey(lockOfQueue, l.queue), d.lockKey(lockOfInserts, l.queue), d.lockKey(lockOfPromotions, 0))
		b.exec(raiseFloor, l.id)
	})
}

// send sends statements to the server, as one transaction.
func (f *floors) send(fill func(*batch)) error {
	bounded, cancel := context.WithTimeout(f.ctx, backgroundTime)
	defer cancel()
	_, err := f.d.pipeline(bounded, fill)
	return err
}
