// Package activity counts what jobs do, by the minute, the hour and six hours: how many succeed and fail,
// how long they wait and run. Processes share these counts in notes.
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
	// Succeeded: the job ended for good, without an error.
	Succeeded Outcome = iota
	// Failed: the job ended for good, with an error, canceled or expired.
	Failed
	// Retried: another attempt follows.
	Retried
)

// NotRun is the wait time and the run time of an attempt that did not run.
const NotRun time.Duration = -1

// Recorder counts the attempts of a process. It counts the current minute in live rows,
// which are fast but use much memory. Changed and the start of the next minute add them to
// the buckets. It is safe for concurrent use.
type Recorder struct {
	mu sync.Mutex
	// minute is the minute of the rows in live, counted from 1970.
	minute int64
	live   map[rowKey]*liveRow
	// dirty is true if live contains counts.
	dirty   bool
	buckets map[bucketKey]*bucket
	version uint64

	// totals are those since the start, and totalOf finds them; see totals.go.
	totals  []*Total
	totalOf map[rowKey]*Total
}

type rowKey struct{ queue, jobType string }

// liveRow is a row of the current minute.
type liveRow struct {
	counts    [3]int // by Outcome
	wait, run live
	// total is that of the same queue and type; nil for the row that several share.
	total *Total
	// unused is how many times in a row fold found it empty.
	unused int
}

type bucketKey struct {
	start int64 // in minutes from 1970
	step  Step
}

// bucket holds the counts of a step.
type bucket struct {
	rows    map[rowKey]*Row
	version uint64 // version of the recorder at the last change
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{live: map[rowKey]*liveRow{}, buckets: map[bucketKey]*bucket{}, totalOf: map[rowKey]*Total{}}
}

// Ended counts an attempt: how long it waited since it could start, and how long it ran,
// or NotRun. It reports whether the attempt is the first since the last call of Changed.
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
	total := row.total
	if total == nil {
		total = r.total(rowKey{queue, jobType})
	}
	total.record(o, wait, run)
	row.counts[o]++
	if wait >= 0 {
		row.wait.record(wait)
	}
	if run >= 0 {
		row.run.record(run)
	}
	return first
}

// outOfOrder is the number of minutes by which an attempt may be reported late; it counts
// as one of the current minute. An earlier time means that the clock was turned back.
const outOfOrder = 2

// move changes the current minute.
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
	if key != (rowKey{}) {
		row.total = r.total(key)
	}
	r.live[key] = row
	return row
}

// maxUnused is how often a row may be found empty before it is removed.
const maxUnused = 30

// fold adds the live rows to the buckets of their minute, hour and six hours.
func (r *Recorder) fold() {
	if !r.dirty {
		return
	}
	r.dirty = false
	r.version++
	var buckets [len(steps)]*bucket
	for step := range buckets {
		buckets[step] = r.bucket(bucketKey{start: r.minute - r.minute%steps[step].minutes, step: Step(step)})
	}
	for key, row := range r.live {
		if row.counts == [3]int{} {
			row.unused++
			if row.unused > maxUnused {
				delete(r.live, key)
			}
			continue
		}
		for _, b := range buckets {
			row.addTo(b.row(key))
		}
		row.reset()
	}
}

// bucket returns a bucket for a change, and creates it if necessary.
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

// prune removes buckets that have been kept long enough.
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
	return Bucket{Start: time.Unix(k.start*60, 0).UTC(), Step: k.step}
}

// Changed returns copies of the buckets that changed after a version, the oldest first,
// and the current version. The first version is 0.
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

// Forget removes the buckets of past steps that did not change after a version.
func (r *Recorder) Forget(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, b := range r.buckets {
		now := r.minute - r.minute%steps[key.step].minutes
		if key.start != now && b.version <= version {
			delete(r.buckets, key)
		}
	}
}
