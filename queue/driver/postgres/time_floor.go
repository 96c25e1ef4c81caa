package postgres

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

const (
	// dueMargin is how far the floor of due records stays behind the time of a claim. The clocks of two
	// processes may differ by as much, and a record may become visible as late after its insert began.
	dueMargin = 2 * time.Second
	// wholeLookInterval is how often a claim searches all times, for records that no announcement named.
	wholeLookInterval = 30 * time.Second
)

const (
	always = math.MinInt64
	never  = math.MaxInt64
)

// timeFloor is what this driver knows about the times at which records are due, or expire. Claims do not search
// other times: while a snapshot is held, the indexes keep the entries of all records that have been due, and of all
// that have started before they expired. A search from the beginning, or from now on, reads them all.
type timeFloor struct {
	mu sync.Mutex
	at int64 // no record has an earlier time
	// No record has a time from since on and before until, except in the spans, which end before until.
	since, until int64
	spans        spans
	whole        time.Time // when all records were last searched
	// served is, for queues from which this driver claims, a time before which no record of the queue has expired;
	// servedTo is the latest of these times. The expired records of a queue that no process serves stay, and keep at low.
	served   map[int32]int64
	servedTo int64
	looks    map[*look]struct{}
}

// look is a search for the first record whose time has come, and for the first one whose time is to come.
type look struct {
	floor *timeFloor
	from  int64 // the first times that have come
	// coming is the first time to come. Of the times to come, the spans and all from until on are searched.
	coming, until int64
	spans         spans
	noted         spans // records that have become visible since the look began
	isKnown       bool  // whether no time has come since the last look, as far as this driver knows
	isPart        bool  // whether only some queues are searched from their first times on
}

// look begins a search from the floor, but at the latest from a given time. It must be closed.
func (f *timeFloor) look(latest, coming int64) *look {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &look{floor: f, from: always, coming: coming, until: coming}
	if !f.whole.IsZero() && time.Since(f.whole) < wholeLookInterval {
		l.from = min(f.at, latest)
		if f.since <= coming {
			l.until, l.spans = max(f.until, coming), f.spans.since(coming)
			l.isKnown = f.until >= coming && (len(f.spans) == 0 || f.spans[0].from >= coming)
		}
	}
	if f.looks == nil {
		f.looks = map[*look]struct{}{}
	}
	f.looks[l] = struct{}{}
	return l
}

// args returns the arguments of a statement that makes the search.
func (l *look) args() []any {
	first, last := make([]int64, len(l.spans)), make([]int64, len(l.spans))
	for i, s := range l.spans {
		first[i], last[i] = s.from, s.to
	}
	return []any{l.from, first, last, l.until}
}

// next returns the first time to come at which there may be a record, as far as this driver knows.
func (l *look) next() table.Instant {
	switch {
	case len(l.spans) > 0:
		return table.Instant{Int64: l.spans[0].from, Valid: true}
	case l.until == never:
		return table.Instant{}
	default:
		return table.Instant{Int64: l.until, Valid: true}
	}
}

// found raises the floor to what a look has found: the first time that has come, which is given even if no record has
// it, and the first one to come.
func (l *look) found(first int64, next table.Instant) {
	f := l.floor
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.isPart {
		first = min(first, f.at)
	}
	f.at, f.since, f.until, f.spans = first, l.coming, l.until, nil
	switch {
	case !next.Valid:
		f.until = never
	case next.Int64 < l.until:
		f.spans = l.spans.since(next.Int64)
	default:
		f.until = next.Int64
	}
	f.add(l.noted)
	if l.from == always {
		f.whole = time.Now()
		clear(f.served)
	}
}

// only limits a search for expired records to those of some queues.
func (l *look) only(queues []queueKey) {
	f := l.floor
	f.mu.Lock()
	defer f.mu.Unlock()
	from := int64(never)
	for _, queue := range queues {
		served, known := f.served[queue.id]
		if !known {
			return
		}
		from = min(from, served)
	}
	if l.from != always && len(queues) > 0 && from > l.from {
		l.from, l.isPart = from, true
	}
}

// tookAll notes that no record of some queues that the look was for has expired any more.
func (l *look) tookAll(queues []queueKey) {
	f := l.floor
	f.mu.Lock()
	defer f.mu.Unlock()
	at := min(l.coming, time.Now().UnixNano())
	if len(l.noted) > 0 && l.noted[0].from < at {
		return
	}
	if f.served == nil {
		f.served = map[int32]int64{}
	}
	for _, queue := range queues {
		f.served[queue.id] = at
	}
	f.servedTo = max(f.servedTo, at)
}

func (l *look) close() {
	l.floor.mu.Lock()
	defer l.floor.mu.Unlock()
	delete(l.floor.looks, l)
}

// lower lowers the floor to records that have become visible.
func (f *timeFloor) lower(to spans) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(to)
	for l := range f.looks {
		l.noted = l.noted.with(to...)
	}
}

// add adds times at which there may be records.
func (f *timeFloor) add(s spans) {
	if len(s) == 0 {
		return
	}
	f.at = min(f.at, s[0].from)
	if s[0].from < f.servedTo {
		clear(f.served)
	}
	f.spans = f.spans.with(s...)
	if i := slices.IndexFunc(f.spans, func(s span) bool { return s.to >= f.until }); i >= 0 {
		f.until = min(f.until, f.spans[i].from)
		f.spans = f.spans[:i]
	}
}

func behind(now int64) int64 { return now - int64(dueMargin) }

// lookForDue begins a search for due records. Without notifications, it must find the
// records that other processes put, so it leaves out no time to come.
func (d *Driver) lookForDue(now int64) *look {
	l := d.due.look(behind(now), now+1)
	if d.opts.PollOnly {
		l.spans, l.until, l.isKnown = nil, now+1, false
	}
	return l
}

// foundDue raises the floor to the first due record, or to a time shortly before now if there is none. The time of
// a claim may be ahead of that at which records are inserted.
func (l *look) foundDue(first, next table.Instant, now int64) {
	at := min(behind(now), behind(time.Now().UnixNano()))
	if first.Valid {
		at = min(at, first.Int64)
	}
	l.found(at, next)
}

// lookForExpired begins a search for records that expire. If a record is found late, it is ended late, but it is not
// run: claims check its own time.
func (d *Driver) lookForExpired(now int64) *look { return d.expires.look(never, now) }

// foundExpiry raises the floor to the first record that has expired, or to now if there is none.
func (l *look) foundExpiry(first, next table.Instant) {
	at := min(l.coming, time.Now().UnixNano())
	if first.Valid {
		at = min(at, first.Int64)
	}
	l.found(at, next)
}

// moments are the times of some records that were written.
type moments struct {
	due     spans // when the scheduled ones are due
	expires spans
}

// momentsOf returns the moments of records that are about to be written.
func momentsOf(all ...*newRecord) moments {
	now := time.Now().UnixNano()
	var due, expires spans
	for _, n := range all {
		if n.WaitUntil.Int64 > now {
			due = append(due, spansOf(n.WaitUntil)...)
		}
		expires = append(expires, spansOf(n.DispatchBy)...)
	}
	return moments{}.and(moments{due, expires})
}

func (m moments) isEmpty() bool { return len(m.due) == 0 && len(m.expires) == 0 }

func (m moments) and(other moments) moments {
	return moments{m.due.with(other.due...), m.expires.with(other.expires...)}
}

// lower makes claims of this process search for records that have become visible.
func (d *Driver) lower(m moments) {
	d.due.lower(m.due)
	d.expires.lower(m.expires)
}

// noteWritten makes claims of all processes search for records that were written. The clocks of others may be ahead, so
// times to come are announced too.
func (d *Driver) noteWritten(m moments) {
	d.lower(m)
	d.signals.announce(m)
}
