package core

import "container/heap"

// candidates are the lines of which a claim may give something to a worker: those that are
// active, have a worker that waits, and may have a job. They are in the order in which
// they should be served: the line with the fewest runs comes first, and among those the
// one that was served least lately. What the others cost does not depend on their number.
type candidates struct {
	lines   []*Line
	workers int // that wait in them
}

// arrange puts a line in its place, or takes it out, after any of what decides that has
// changed.
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

// first returns the first lines, in their order.
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

// candidateHeap is the heap of the lines, for package heap.
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
