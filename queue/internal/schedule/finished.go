package schedule

// ring is a queue of finished entries, oldest first.
type ring[J any] struct {
	entries []*Entry[J]
	head    int
	size    int
}

func (r *ring[J]) push(e *Entry[J]) {
	if r.size == len(r.entries) {
		grown := make([]*Entry[J], max(8, 2*len(r.entries)))
		n := copy(grown, r.entries[r.head:])
		copy(grown[n:], r.entries[:r.head])
		r.entries, r.head = grown, 0
	}
	r.entries[(r.head+r.size)%len(r.entries)] = e
	r.size++
}

func (r *ring[J]) pop() *Entry[J] {
	e := r.entries[r.head]
	r.entries[r.head] = nil
	r.head = (r.head + 1) % len(r.entries)
	r.size--
	return e
}

// end keeps an entry that finished, and forgets the oldest beyond KeepFinished.
func (s *Schedule[J]) end(e *Entry[J]) {
	s.ended++
	s.finished.push(e)
	for s.finished.size > s.KeepFinished {
		s.forget(s.finished.pop())
	}
}

func (s *Schedule[J]) forget(e *Entry[J]) {
	if s.byID[e.ID] == e {
		delete(s.byID, e.ID)
	}
	if s.Forget != nil {
		s.Forget(e)
	}
}

// Finished calls yield with the finished entries, oldest first.
func (s *Schedule[J]) Finished(yield func(*Entry[J]) bool) {
	for i := range s.finished.size {
		if !yield(s.finished.entries[(s.finished.head+i)%len(s.finished.entries)]) {
			return
		}
	}
}
