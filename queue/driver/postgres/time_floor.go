package postgres

import (
	"math"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

const (
	// dueMargin is how far the floor of due records stays behind the time of a claim. The clocks of two
	// processes may differ by as much, and a record may become visible as late after its insert began.
	dueMargin = 2 * time.Second
	// wholeLookInterval is how often a claim looks for all records, for what no announcement named.
	wholeLookInterval = 30 * time.Second
)

const (
	always = math.MinInt64
	never  = math.MaxInt64
)

// timeFloor is a time before which no record is due, or none expires, as far as this driver knows. Claims look
// from there on: while a snapshot is held, the indexes keep the entries of all records that have been due, and
// of all that have started before they expired. To look from the beginning reads them all.
type timeFloor struct {
	mu    sync.Mutex
	at    int64
	whole time.Time // when all records were last looked at
	looks map[*look]struct{}
}

// look is a search for the first record from a time on.
type look struct {
	floor *timeFloor
	from  int64
	noted int64 // the first record that has become visible since the look began
}

// look begins a search from the floor, but at the latest from a given time. It must be closed.
func (f *timeFloor) look(latest int64) *look {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &look{floor: f, from: always, noted: never}
	if !f.whole.IsZero() && time.Since(f.whole) < wholeLookInterval {
		l.from = min(f.at, latest)
	}
	if f.looks == nil {
		f.looks = map[*look]struct{}{}
	}
	f.looks[l] = struct{}{}
	return l
}

// found raises the floor to what a look has found.
func (l *look) found(first int64) {
	l.floor.mu.Lock()
	defer l.floor.mu.Unlock()
	l.floor.at = min(first, l.noted)
	if l.from == always {
		l.floor.whole = time.Now()
	}
}

func (l *look) close() {
	l.floor.mu.Lock()
	defer l.floor.mu.Unlock()
	delete(l.floor.looks, l)
}

// lower lowers the floor to a record that has become visible.
func (f *timeFloor) lower(to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = min(f.at, to)
	for l := range f.looks {
		l.noted = min(l.noted, to)
	}
}

// next returns the floor as the time of the next look; none if there is nothing to look for. A record that expired then
// may have started.
func (f *timeFloor) next() table.Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == never {
		return table.Instant{}
	}
	return table.Instant{Int64: f.at, Valid: true}
}

func behind(now int64) int64 { return now - int64(dueMargin) }

// lookForDue begins a search for due records.
func (d *Driver) lookForDue(now int64) *look { return d.due.look(behind(now)) }

// foundDue raises the floor to the first due record, or to a time shortly before now if there is none. The time of
// a claim may be ahead of that at which records are inserted.
func (l *look) foundDue(first table.Instant, now int64) {
	at := min(behind(now), behind(time.Now().UnixNano()))
	if first.Valid {
		at = min(at, first.Int64)
	}
	l.found(at)
}

// lookForExpired begins a search for records that expire. If a record is found late, it is ended late, but it is not
// run: claims check its own time.
func (d *Driver) lookForExpired() *look { return d.expires.look(never) }

// foundExpiry raises the floor to when the first record expires.
func (l *look) foundExpiry(first table.Instant) {
	at := int64(never)
	if first.Valid {
		at = first.Int64
	}
	l.found(at)
}

// moments are the first times of some records that were written.
type moments struct {
	due     table.Instant // when the first of the scheduled ones is due
	expires table.Instant // when the first one expires
}

// momentsOf returns the moments of records that are about to be written.
func momentsOf(all ...*newRecord) (m moments) {
	now := time.Now().UnixNano()
	for _, n := range all {
		of := moments{expires: n.DispatchBy}
		if n.WaitUntil.Int64 > now {
			of.due = n.WaitUntil
		}
		m = m.and(of)
	}
	return m
}

func (m moments) and(other moments) moments {
	return moments{earlier(m.due, other.due), earlier(m.expires, other.expires)}
}

func earlier(a, b table.Instant) table.Instant {
	if !a.Valid || b.Valid && b.Int64 < a.Int64 {
		return b
	}
	return a
}

// lower makes claims of this process look for records that have become visible. For those that become due
// later than the floor reaches, there is nothing to do.
func (d *Driver) lower(m moments) {
	if m.due.Valid && m.due.Int64 < behind(time.Now().UnixNano()) {
		d.due.lower(m.due.Int64)
	}
	if m.expires.Valid {
		d.expires.lower(m.expires.Int64)
	}
}

// noteWritten makes claims of all processes look for records that were written. The clocks of others may be ahead, so
// times to come are announced too.
func (d *Driver) noteWritten(m moments) {
	d.lower(m)
	d.signals.announce(m)
}
