package core

import "container/heap"

// candidates are the lines whose workers a claim may serve: the lines that are active, have
// a waiting worker, and may have a job. They are sorted in the order in which they should
// be served: the line with the fewest runs first, and among equals the least recently
// served. The cost of an operation does not depend on the number of other lines.
type candidates struct {
	lines   []*Line
	workers int // the workers that wait in these lines
}

// arrange moves a line to its place, or removes it. It must be called after each change of
// what decides the place.
func (s *candidates) arrange(l *Line) {
	is := l.isActive() && l.mayHave && len(l.waiting) > 0
	switch {
	case is && l.candidate == 0:
		heap.Push((*candidateHeap)(s), l)
	case is:
		heap.Fix((*candidateHeap)(s), l.candidate-1)
	case l.candidate != 0:
		heap.Remove((*candidateHeap)(s), l.candidate-1)
	}
	s.workers -= l.counted
	l.counted = 0
	if is {
		l.counted = len(l.waiting)
	}
	s.workers += l.counted
}

// first returns the first lines in order, at most as many as most.
func (s *candidates) first(most int) []*Line {
	lines := make([]*Line, min(most, len(s.lines)))
	for i := range lines {
		lines[i] = heap.Pop((*candidateHeap)(s)).(*Line)
	}
	for _, l := range lines {
		heap.Push((*candidateHeap)(s), l)
	}
	return lines
}

// candidateHeap implements heap.Interface for candidates.
type candidateHeap candidates

func (h *candidateHeap) Len() int { return len(h.lines) }

func (h *candidateHeap) Less(i, j int) bool {
	a, b := h.lines[i], h.lines[j]
	if a.out != b.out {
		return a.out < b.out
	}
	return a.served < b.served
}

func (h *candidateHeap) Swap(i, j int) {
	h.lines[i], h.lines[j] = h.lines[j], h.lines[i]
	h.lines[i].candidate, h.lines[j].candidate = i+1, j+1
}

func (h *candidateHeap) Push(l any) {
	h.lines = append(h.lines, l.(*Line))
	l.(*Line).candidate = len(h.lines)
}

func (h *candidateHeap) Pop() any {
	last := len(h.lines) - 1
	l := h.lines[last]
	h.lines[last] = nil
	h.lines = h.lines[:last]
	l.candidate = 0
	return l
}
