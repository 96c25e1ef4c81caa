package core

import "github.com/mongodb/amboy/internal/heap"

// candidates are the lines whose workers a claim may serve: the lines that are active, have
// a waiting worker, and may have a job. They are sorted in the order in which they should
// be served: the line with the fewest runs first, and among equals the least recently
// served. The cost of an operation does not depend on the number of other lines.
type candidates struct {
	lines   heap.Heap[*Line]
	workers int // the workers that wait in these lines
}

func newCandidates() candidates {
	return candidates{lines: heap.New(
		func(a, b *Line) bool {
			if a.out != b.out {
				return a.out < b.out
			}
			return a.served < b.served
		},
		func(l *Line) *int { return &l.candidate })}
}

// arrange moves a line to its place, or removes it. It must be called after each change of
// what decides the place.
func (s *candidates) arrange(l *Line) {
	is := l.isActive() && l.mayHave && len(l.waiting) > 0
	s.workers -= l.counted
	l.counted = 0
	if is {
		s.lines.Put(l)
		l.counted = len(l.waiting)
	} else {
		s.lines.Remove(l)
	}
	s.workers += l.counted
}

// first returns the first lines in order, at most as many as most.
func (s *candidates) first(most int) []*Line {
	lines := make([]*Line, min(most, s.lines.Len()))
	for i := range lines {
		lines[i] = s.lines.Pop()
	}
	for _, l := range lines {
		s.lines.Put(l)
	}
	return lines
}
