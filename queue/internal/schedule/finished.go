package schedule

// finishedList holds the finished entries, oldest first. It is linked through the entries, so
// that any of them can be removed.
type finishedList[J any] struct {
	oldest, newest *Entry[J]
	size           int
}

func (l *finishedList[J]) push(e *Entry[J]) {
	if l.newest == nil {
		l.oldest = e
	} else {
		l.newest.newer, e.older = e, l.newest
	}
	l.newest = e
	l.size++
}

func (l *finishedList[J]) remove(e *Entry[J]) {
	if e.older == nil {
		l.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		l.newest = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	l.size--
}

// end keeps a finished entry, and removes the oldest entries beyond KeepFinished.
func (s *Schedule[J]) end(e *Entry[J]) {
	s.ended++
	s.finished.push(e)
	for s.finished.size > s.KeepFinished {
		s.Remove(s.finished.oldest)
	}
}

// Remove removes a Finished entry.
func (s *Schedule[J]) Remove(e *Entry[J]) {
	s.finished.remove(e)
	s.tallyOut(e)
	if s.byID[e.ID] == e {
		delete(s.byID, e.ID)
	}
	s.freeKey(e)
	if s.Forget != nil {
		s.Forget(e)
	}
}

// Finished calls yield with the finished entries, oldest first.
func (s *Schedule[J]) Finished(yield func(*Entry[J]) bool) {
	for e := s.finished.oldest; e != nil; e = e.newer {
		if !yield(e) {
			return
		}
	}
}
