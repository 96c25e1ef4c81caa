// Package activity counts what jobs do, by the minute and by the hour: how many
// succeeded and failed, how long they waited and ran. Processes tell each other of it
// in notes.
package activity

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is how an attempt ended.
type Outcome int

// The outcomes.
const (
	// Succeeded ended for good, and well.
	Succeeded Outcome = iota
	// Failed ended for good: with an error, canceled or expired.
	Failed
	// Retried was followed by another attempt.
	Retried
)

// NotRun is the wait and the run time of an attempt that was not run.
const NotRun time.Duration = -1

// Recorder counts the attempts of a process. Those of the minute are counted in rows
// that are fast, and need room; Changed, and the next minute, add them to what is kept.
// It is safe for concurrent use.
type Recorder struct {
	mu sync.Mutex
	// minute is that of the rows in live, counted from 1970.
	minute int64
	live   map[rowKey]*liveRow
	// dirty is true where live has something.
	dirty   bool
	buckets map[bucketKey]*bucket
	version uint64
}

type rowKey struct{ queue, jobType string }

// liveRow is a row that is being counted.
type liveRow struct {
	counts    [3]int // by Outcome
	wait, run live
	// unused counts how often there was nothing in it.
	unused int
}

type bucketKey struct {
	start int64 // in minutes from 1970
	hour  bool
}

// bucket is what is kept of a minute, or of an hour.
type bucket struct {
	rows    map[rowKey]*Row
	version uint64 // of its last change
}

// NewRecorder returns one that has counted nothing.
func NewRecorder() *Recorder {
	return &Recorder{live: map[rowKey]*liveRow{}, buckets: map[bucketKey]*bucket{}}
}

// Ended counts an attempt, with how long it waited since it could start, and ran, or
// NotRun. It tells whether it is the first since Changed was called.
func (r *Recorder) Ended(at time.Time, queue, jobType string, o Outcome, wait, run time.Duration) (first bool) {
	minute := at.Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute != r.minute {
		r.move(minute)
	}
	first = !r.dirty
	r.dirty = true
	row := r.live[rowKey{queue, jobType}]
	if row == nil {
		row = r.newLiveRow(rowKey{queue, jobType})
	}
	row.counts[o]++
	if wait >= 0 {
		row.wait.record(wait)
	}
	if run >= 0 {
		row.run.record(run)
	}
	return first
}

// outOfOrder is the number of minutes by which an attempt may be reported too late,
// and counts as one of the current minute. One that is earlier yet means that somebody
// turned the clock back.
const outOfOrder = 2

// move makes another minute the current one.
func (r *Recorder) move(minute int64) {
	if minute < r.minute && r.minute-minute <= outOfOrder {
		return
	}
	r.fold()
	r.minute = minute
	r.prune(minute)
}

func (r *Recorder) newLiveRow(key rowKey) *liveRow {
	if len(r.live) >= MaxRows-1 {
		key = rowKey{}
		if row := r.live[key]; row != nil {
			return row
		}
	}
	row := &liveRow{wait: newLive(), run: newLive()}
	r.live[key] = row
	return row
}

// maxUnused is how often a row must have been unused to be given up.
const maxUnused = 30

// fold adds what was counted to its minute and its hour.
func (r *Recorder) fold() {
	if !r.dirty {
		return
	}
	r.dirty = false
	r.version++
	minute := r.bucket(bucketKey{start: r.minute})
	hour := r.bucket(bucketKey{start: r.minute - r.minute%60, hour: true})
	for key, row := range r.live {
		if row.counts == [3]int{} {
			row.unused++
			if row.unused > maxUnused {
				delete(r.live, key)
			}
			continue
		}
		row.addTo(minute.row(key))
		row.addTo(hour.row(key))
		row.reset()
	}
}

// bucket returns a bucket that is about to change.
func (r *Recorder) bucket(key bucketKey) *bucket {
	b := r.buckets[key]
	if b == nil {
		b = &bucket{rows: map[rowKey]*Row{}}
		r.buckets[key] = b
	}
	b.version = r.version
	return b
}

func (b *bucket) row(key rowKey) *Row {
	if row := b.rows[key]; row != nil {
		return row
	}
	if len(b.rows) >= MaxRows-1 && key != (rowKey{}) {
		return b.row(rowKey{})
	}
	row := &Row{Queue: key.queue, Type: key.jobType}
	b.rows[key] = row
	return row
}

func (l *liveRow) addTo(row *Row) {
	row.Succeeded += l.counts[Succeeded]
	row.Failed += l.counts[Failed]
	row.Retried += l.counts[Retried]
	l.wait.addTo(&row.Wait)
	l.run.addTo(&row.Run)
}

func (l *liveRow) reset() {
	l.counts = [3]int{}
	l.wait.reset()
	l.run.reset()
	l.unused = 0
}

// prune gives up what has been kept for long enough.
func (r *Recorder) prune(minute int64) {
	now := time.Unix(minute*60, 0)
	for key := range r.buckets {
		if key.bucket().Until().Before(now) {
			delete(r.buckets, key)
		}
	}
}

// bucket returns an empty bucket.
func (k bucketKey) bucket() Bucket {
	return Bucket{Start: time.Unix(k.start*60, 0).UTC(), Hour: k.hour}
}

// Changed returns copies of the buckets that changed after a version, the oldest first,
// and the version that they have then. The first version is 0.
func (r *Recorder) Changed(now time.Time, after uint64) (changed []Bucket, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold()
	r.prune(now.Unix() / 60)
	for key, b := range r.buckets {
		if b.version > after {
			changed = append(changed, b.copied(key))
		}
	}
	slices.SortFunc(changed, compare)
	return changed, r.version
}

func (b *bucket) copied(key bucketKey) Bucket {
	c := key.bucket()
	for _, row := range b.rows {
		c.Rows = append(c.Rows, row.clone())
	}
	slices.SortFunc(c.Rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Type, b.Type))
	})
	return c
}

// Forget gives up the buckets of times that are over, and that did not change after a
// version.
func (r *Recorder) Forget(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, b := range r.buckets {
		now := r.minute
		if key.hour {
			now -= now % 60
		}
		if key.start != now && b.version <= version {
			delete(r.buckets, key)
		}
	}
}
