package postgres

import (
	"math"
	"sync"
	"time"
)

const (
	// manyLines is the number of lines of a queue beyond which not every claim scans all of them. A queue
	// has so many if its jobs have many different priorities.
	manyLines = 256
	// slowScan is the duration of a scan of all lines from which on not every claim makes one.
	slowScan = 5 * time.Millisecond
	// scansApart is the pause between scans of all lines, in durations of such a scan.
	scansApart = 10
)

// top is the highest priority of a queue that claims scan until a time: no job of a higher one was ready at
// the last scan of all lines, and this process has put none since then.
type top struct {
	priority int64
	until    time.Time // zero while a claim scans all lines
}

func (t top) isForAll() bool { return t.priority == math.MaxInt64 }

// tops are the tops of queues. A job that another process puts into a line above the top is found by the
// next scan of all lines.
type tops struct {
	slowScan   time.Duration // set by tests
	scansApart int           // set by tests

	mu sync.Mutex
	of map[int32]top // by queue
	// many contains the queues with many lines.
	many map[int32]bool
}

func newTops() *tops {
	return &tops{slowScan: slowScan, scansApart: scansApart, of: map[int32]top{}, many: map[int32]bool{}}
}

// begin returns the top for a scan of a queue.
func (s *tops) begin(queue int32) top {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.of[queue]; time.Now().Before(t.until) {
		return t
	}
	s.of[queue] = top{priority: math.MinInt64} // raised by what is put during the scan
	return top{priority: math.MaxInt64}
}

// end sets the top of a queue after a scan that began with another top. found is the highest priority of the
// ready jobs.
func (s *tops) end(queue int32, began top, found int64, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.of[queue]; {
	case began.isForAll():
		s.of[queue] = top{max(t.priority, found), until}
	case t == began:
		s.of[queue] = top{found, t.until}
	}
}

// forget makes the next claim scan all lines of a queue.
func (s *tops) forget(queue int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, queue)
}

// raise makes claims scan the lines of a priority, because a job of it was put.
func (s *tops) raise(queue int32, priority int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, known := s.of[queue]; known && t.priority < int64(priority) {
		s.of[queue] = top{int64(priority), t.until}
	}
}

func (s *tops) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.of)
	clear(s.many)
}

// noteTops sets the tops of the queues that a probe has scanned.
func (cl *claim) noteTops(p *probing, took time.Duration) {
	all := cl.d.tops
	for _, w := range p.all {
		until := w.top.until
		switch {
		case !w.top.isForAll():
			if w.ready < w.most {
				cl.scanBy = earlier(cl.scanBy, until)
			}
		case took < all.slowScan || !all.haveMany(w):
			all.forget(w.queue.id)
			continue
		default:
			until = time.Now().Add(time.Duration(all.scansApart) * took)
		}
		if found, some := w.highest(); some || w.top.isForAll() {
			all.end(w.queue.id, w.top, found, until)
		}
	}
}

// haveMany reports whether a queue has many lines. A scan that found no ready jobs has not counted them: then
// the last count holds.
func (s *tops) haveMany(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.allLines > manyLines:
		s.many[w.queue.id] = true
	case w.allLines > 0:
		delete(s.many, w.queue.id)
	}
	return s.many[w.queue.id]
}

// highest returns the highest priority of the ready jobs, or the lowest possible one if there are none.
func (w *work) highest() (priority int64, some bool) {
	priority = math.MinInt64
	for _, s := range w.lines {
		priority = max(priority, int64(s.priority))
	}
	return priority, len(w.lines) > 0
}

// earlier returns the earlier of two times, of which the first may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
