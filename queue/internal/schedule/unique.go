package schedule

import "github.com/mongodb/amboy"

// Unique is a key that only one entry may have at a time, and until when it has it.
// Few entries have one, and all are paid for in memory, so it lies apart from them.
type Unique struct {
	Key   string
	Until amboy.UniqueUntil
}

// NewUnique makes the unique key of an entry, which is nil for an empty key.
func NewUnique(key string, until amboy.UniqueUntil) *Unique {
	if key == "" {
		return nil
	}
	return &Unique{Key: key, Until: until}
}

// Split returns the key and until when the entry has it; both are empty for none.
func (u *Unique) Split() (key string, until amboy.UniqueUntil) {
	if u == nil {
		return "", ""
	}
	return u.Key, u.Until
}

// Duplicate is the error of Add for an entry whose ID is taken, or whose unique
// key another entry has; nil if both are free.
func (s *Schedule[J]) Duplicate(e *Entry[J]) error {
	if _, taken := s.byID[e.ID]; taken {
		return amboy.NewDuplicateJobErrorf("job %q is in the queue already", e.ID)
	}
	if holder := s.keyHolder(e); holder != nil {
		return amboy.NewDuplicateJobErrorf("job %q has the unique key %q", holder.ID, e.Unique.Key)
	}
	return nil
}

// keyHolder returns the entry that has the unique key of another; nil if none
// has.
func (s *Schedule[J]) keyHolder(e *Entry[J]) *Entry[J] {
	if e.Unique == nil {
		return nil
	}
	if holder := s.keys[e.Unique.Key]; holder != e {
		return holder
	}
	return nil
}

// takeKey gives an entry its unique key, which is free.
func (s *Schedule[J]) takeKey(e *Entry[J]) {
	if e.Unique == nil {
		return
	}
	if s.keys == nil {
		s.keys = map[string]*Entry[J]{}
	}
	s.keys[e.Unique.Key] = e
}

// freeKey takes the unique key away from an entry that has it.
func (s *Schedule[J]) freeKey(e *Entry[J]) {
	if e.Unique != nil && s.keys[e.Unique.Key] == e {
		delete(s.keys, e.Unique.Key)
	}
}

// passKey makes the unique key of an attempt that of the next one, which has it
// if the attempt has.
func (s *Schedule[J]) passKey(e, next *Entry[J]) {
	next.Unique = e.Unique
	if e.Unique != nil && s.keys[e.Unique.Key] == e {
		s.keys[e.Unique.Key] = next
	}
}

// freeKeyAtStart takes the unique key away from an entry that has it until it
// starts.
func (s *Schedule[J]) freeKeyAtStart(e *Entry[J]) {
	if e.Unique != nil && e.Unique.Until == amboy.UniqueUntilStarted {
		s.freeKey(e)
	}
}

// freeKeyAtEnd takes the unique key away from an entry that ended, unless it has
// it for longer.
func (s *Schedule[J]) freeKeyAtEnd(e *Entry[J]) {
	if e.Unique != nil && !e.Unique.outlivesEnd(e.succeeded) {
		s.freeKey(e)
	}
}

// outlivesEnd reports whether an entry has the key after its end too.
func (u *Unique) outlivesEnd(succeeded bool) bool {
	return u.Until == amboy.UniqueUntilForgotten || (u.Until == amboy.UniqueUntilFailed && succeeded)
}
