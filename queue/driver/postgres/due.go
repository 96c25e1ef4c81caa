package postgres

import (
	"math"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

const (
	// dueMargin is how far the floor stays behind the time of a claim. The clocks of two processes may differ
	// by as much, and a record may become visible as late after its insert began.
	dueMargin = 2 * time.Second
	// wholeLookInterval is how often a claim looks for all due records, for what comes later still.
	wholeLookInterval = 30 * time.Second
)

// dueFloor is a time before which no record is due, as far as this driver knows. Claims look for due records
// from there on: while a snapshot is held, the index keeps the entries of all records that have been due, and
// to look from the beginning reads them all.
type dueFloor struct {
	mu      sync.Mutex
	floor   int64
	lowered int       // how often, so that a look which began before does not raise the floor again
	whole   time.Time // when all due records were last looked for
}

// look is a search for due records that is under way.
type look struct {
	from    int64 // when the first of them may be due
	now     int64
	lowered int
}

// begin begins a look.
func (f *dueFloor) begin(now int64) look {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := look{from: math.MinInt64, now: now, lowered: f.lowered}
	if !f.whole.IsZero() && time.Since(f.whole) < wholeLookInterval {
		l.from = min(f.floor, behind(now))
	}
	return l
}

// end raises the floor to the first record that a look has found, or to its time if it found none.
func (f *dueFloor) end(l look, first table.Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.from == math.MinInt64 {
		f.whole = time.Now()
	}
	if l.lowered == f.lowered {
		// The time of a claim may be ahead of that at which records are inserted.
		f.floor = min(behind(l.now), behind(time.Now().UnixNano()))
		if first.Valid {
			f.floor = min(f.floor, first.Int64)
		}
	}
}

func behind(now int64) int64 { return now - int64(dueMargin) }

// lower lowers the floor to a record that may have become visible after its time. It does nothing if no look
// that is under way raises the floor above it.
func (f *dueFloor) lower(due int64) {
	if due >= behind(time.Now().UnixNano()) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lowered++
	f.floor = min(f.floor, due)
}

// noteLate makes all processes look for records that were written. due is when the first of them is due.
func (d *Driver) noteLate(due table.Instant) {
	if due.Valid && due.Int64 <= time.Now().UnixNano() {
		d.due.lower(due.Int64)
		d.signals.announceLate(due.Int64)
	}
}

// firstDue returns when the first of some records is due that are not due yet.
func firstDue(all []*newRecord) (due table.Instant) {
	now := time.Now().UnixNano()
	for _, n := range all {
		if at := n.WaitUntil; at.Valid && at.Int64 > now && (!due.Valid || at.Int64 < due.Int64) {
			due = at
		}
	}
	return due
}
