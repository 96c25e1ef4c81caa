package schedule

import "github.com/mongodb/amboy"

// Duplicate is the error of Add for an entry whose ID is taken, or whose unique
// key another entry has; nil where both are free.
func (s *Schedule[J]) Duplicate(e *Entry[J]) error {
	if _, taken := s.byID[e.ID]; taken {
		return amboy.NewDuplicateJobErrorf("job %q is in the queue already", e.ID)
	}
	if holder := s.keyHolder(e); holder != nil {
		return amboy.NewDuplicateJobErrorf("job %q has the unique key %q", holder.ID, e.UniqueKey)
	}
	return nil
}

// keyHolder returns the entry that has the unique key of another; nil where none
// has.
func (s *Schedule[J]) keyHolder(e *Entry[J]) *Entry[J] {
	if e.UniqueKey == "" {
		return nil
	}
	if holder := s.keys[e.UniqueKey]; holder != e {
		return holder
	}
	return nil
}

// takeKey gives an entry its unique key, which is free.
func (s *Schedule[J]) takeKey(e *Entry[J]) {
	if e.UniqueKey == "" {
		return
	}
	if s.keys == nil {
		s.keys = map[string]*Entry[J]{}
	}
	s.keys[e.UniqueKey] = e
}

// freeKey takes the unique key away from an entry that has it.
func (s *Schedule[J]) freeKey(e *Entry[J]) {
	if e.UniqueKey != "" && s.keys[e.UniqueKey] == e {
		delete(s.keys, e.UniqueKey)
	}
}

// passKey makes the unique key of an attempt that of the next one, which has it
// where the attempt has.
func (s *Schedule[J]) passKey(e, next *Entry[J]) {
	next.UniqueKey, next.UniqueUntil = e.UniqueKey, e.UniqueUntil
	if e.UniqueKey != "" && s.keys[e.UniqueKey] == e {
		s.keys[e.UniqueKey] = next
	}
}

// freeKeyAtStart takes the unique key away from an entry that has it until it
// starts.
func (s *Schedule[J]) freeKeyAtStart(e *Entry[J]) {
	if e.UniqueUntil == amboy.UniqueUntilStarted {
		s.freeKey(e)
	}
}

// freeKeyAtEnd takes the unique key away from an entry that ended, unless it has
// it for longer.
func (s *Schedule[J]) freeKeyAtEnd(e *Entry[J]) {
	switch {
	case e.UniqueUntil == amboy.UniqueUntilForgotten:
	case e.UniqueUntil == amboy.UniqueUntilFailed && e.succeeded:
	default:
		s.freeKey(e)
	}
}
