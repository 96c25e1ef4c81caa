package activity

import (
	"slices"
	"time"
)

// Bounds are the upper bounds of the buckets of Times, ascending and inclusive.
var Bounds = [...]time.Duration{
	5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour,
}

// Times counts times in fixed buckets. The zero value is empty.
type Times struct {
	Count uint64
	Sum   time.Duration
	// Buckets counts the times up to each of Bounds and above the one before. A time above
	// the last is only in Count.
	Buckets [len(Bounds)]uint64
}

func (t *Times) record(d time.Duration) {
	t.Count++
	t.Sum += d
	if n, _ := slices.BinarySearch(Bounds[:], d); n < len(Bounds) {
		t.Buckets[n]++
	}
}

// Add adds the counts of other times.
func (t *Times) Add(other Times) {
	t.Count += other.Count
	t.Sum += other.Sum
	for n, count := range other.Buckets {
		t.Buckets[n] += count
	}
}

// Total is what a process has counted since it started for the jobs of one type in one
// queue. Its counts never decrease.
type Total struct {
	Queue, Type                string
	Succeeded, Failed, Retried uint64
	Wait, Run                  Times
}

// Add adds the counts of another total.
func (t *Total) Add(other Total) {
	t.Succeeded += other.Succeeded
	t.Failed += other.Failed
	t.Retried += other.Retried
	t.Wait.Add(other.Wait)
	t.Run.Add(other.Run)
}

func (t *Total) record(o Outcome, wait, run time.Duration) {
	switch o {
	case Succeeded:
		t.Succeeded++
	case Failed:
		t.Failed++
	case Retried:
		t.Retried++
	}
	if wait >= 0 {
		t.Wait.record(wait)
	}
	if run >= 0 {
		t.Run.record(run)
	}
}

// total returns the total of a queue and a type. If there are MaxRows, further ones share
// the one whose queue and type are empty.
func (r *Recorder) total(key rowKey) *Total {
	if t := r.totalOf[key]; t != nil {
		return t
	}
	if len(r.totals) >= MaxRows-1 && key != (rowKey{}) {
		return r.total(rowKey{})
	}
	t := &Total{Queue: key.queue, Type: key.jobType}
	r.totals = append(r.totals, t)
	r.totalOf[key] = t
	return t
}

// Totals returns copies of the totals, in the order in which their first attempts ended:
// later results begin with the same queues and types.
func (r *Recorder) Totals() []Total {
	r.mu.Lock()
	defer r.mu.Unlock()
	totals := make([]Total, len(r.totals))
	for n, t := range r.totals {
		totals[n] = *t
	}
	return totals
}
