package engine

import (
	"maps"
	"sync"
	"time"
)

// forgetting decides when to ask the store to remove jobs: if the retention of jobs that
// ended in this process is over, if jobs ended since the last removal (the store may keep
// a limited number), and once per forgetInterval because of jobs of other processes. It
// is safe for concurrent use.
type forgetting struct {
	mu    sync.Mutex
	ended bool // a job has ended since the last removal
	last  time.Time
	// spans are the time spans in which the retention of jobs ends.
	spans map[timeSpan]struct{}
}

type timeSpan struct{ from, to time.Time }

const (
	// forgetInterval is how often jobs that other processes left are removed.
	forgetInterval = time.Hour
	// shortestSpan is the width of the spans for jobs that are kept for a short time.
	// Longer retention uses wider spans, so that there are at most about two thousand
	// spans.
	shortestSpan = time.Minute
	spansAhead   = 1024
)

// add records that a job ended, and when it may be removed. at is zero if it is kept for
// ever.
func (f *forgetting) add(at, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if at.IsZero() {
		return
	}
	width := shortestSpan
	for width < at.Sub(ended)/spansAhead { // so that a retention of centuries does not overflow
		width *= 2
	}
	from := at.Truncate(width)
	if f.spans == nil {
		f.spans = map[timeSpan]struct{}{}
	}
	f.spans[timeSpan{from, from.Add(width)}] = struct{}{}
}

// isDue reports whether the store may have jobs to remove.
func (f *forgetting) isDue(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || now.Sub(f.last) >= forgetInterval {
		return true
	}
	for span := range f.spans {
		if !span.from.After(now) {
			return true
		}
	}
	return false
}

// done records that all jobs whose retention was over at now were removed.
func (f *forgetting) done(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.last = false, now
	maps.DeleteFunc(f.spans, func(span timeSpan, _ struct{}) bool { return !span.to.After(now) })
}
