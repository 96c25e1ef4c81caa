package queue

import (
	"maps"
	"sync"
	"time"
)

// forgetting knows when the store may have jobs to remove, so that nobody need ask
// it: when the time of jobs is over that ended here, when some ended and it may have
// no room, and now and then because of what other processes left. It is safe for
// concurrent use.
type forgetting struct {
	mu    sync.Mutex
	ended bool // a job has, since the last time
	last  time.Time
	// spans are those in which the time of jobs is over.
	spans map[timeSpan]struct{}
}

type timeSpan struct{ from, to time.Time }

const (
	// forgetInterval is how often to look for what other processes left.
	forgetInterval = time.Hour
	// shortestSpan is that of jobs that are kept for a short time. For others it is
	// longer, so that there are two thousand at most, however long jobs are kept.
	shortestSpan = time.Minute
	spansAhead   = 1024
)

// add notes that a job ended, which may be forgotten at a time; zero for never.
func (f *forgetting) add(at, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if at.IsZero() {
		return
	}
	width := shortestSpan
	for width*spansAhead < at.Sub(ended) {
		width *= 2
	}
	from := at.Truncate(width)
	if f.spans == nil {
		f.spans = map[timeSpan]struct{}{}
	}
	f.spans[timeSpan{from, from.Add(width)}] = struct{}{}
}

// isDue tells whether there may be something to remove.
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

// done says that all was removed whose time was over.
func (f *forgetting) done(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.last = false, now
	maps.DeleteFunc(f.spans, func(span timeSpan, _ struct{}) bool { return !span.to.After(now) })
}
