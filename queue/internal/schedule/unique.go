package schedule

import "github.com/mongodb/amboy"

// Unique is a key that only one entry may hold at a time, and until when the entry holds it.
// Few entries have one, so it is stored apart from them to save memory.
type Unique struct {
	Key   string
	Until amboy.UniqueUntil
}

// NewUnique returns the unique key of an entry; nil for an empty key.
func NewUnique(key string, until amboy.UniqueUntil) *Unique {
	if key == "" {
		return nil
	}
	return &Unique{Key: key, Until: until}
}

// Split returns the key and until when the entry holds it; both are empty for none.
func (u *Unique) Split() (key string, until amboy.UniqueUntil) {
	if u == nil {
		return "", ""
	}
	return u.Key, u.Until
}

// Duplicate returns the error of Add for an entry whose ID exists or whose unique key another
// entry holds; nil if both are free.
func (s *Schedule[J]) Duplicate(e *Entry[J]) error {
	if _, taken := s.byID[e.ID]; taken {
		return &amboy.DuplicateJobError{JobID: e.ID, Reason: amboy.DuplicateID, Value: e.ID, ExistingID: e.ID}
	}
	if holder := s.keyHolder(e); holder != nil {
		return &amboy.DuplicateJobError{JobID: e.ID, Reason: amboy.DuplicateUniqueKey, Value: e.Unique.Key, ExistingID: holder.ID}
	}
	return nil
}

// keyHolder returns the other entry that holds the unique key of an entry; nil if there is
// none.
func (s *Schedule[J]) keyHolder(e *Entry[J]) *Entry[J] {
	if e.Unique == nil {
		return nil
	}
	if holder := s.keys[e.Unique.Key]; holder != e {
		return holder
	}
	return nil
}

// takeKey gives an entry its unique key, which must be free.
func (s *Schedule[J]) takeKey(e *Entry[J]) {
	if e.Unique == nil {
		return
	}
	if s.keys == nil {
		s.keys = map[string]*Entry[J]{}
	}
	s.keys[e.Unique.Key] = e
}

// freeKey releases the unique key of an entry, if it holds the key.
func (s *Schedule[J]) freeKey(e *Entry[J]) {
	if e.Unique != nil && s.keys[e.Unique.Key] == e {
		delete(s.keys, e.Unique.Key)
	}
}

// passKey passes the unique key of an attempt to the next one, which holds it if the attempt
// held it.
func (s *Schedule[J]) passKey(e, next *Entry[J]) {
	next.Unique = e.Unique
	if e.Unique != nil && s.keys[e.Unique.Key] == e {
		s.keys[e.Unique.Key] = next
	}
}

// freeKeyAtStart releases the unique key of an entry that holds it until its start.
func (s *Schedule[J]) freeKeyAtStart(e *Entry[J]) {
	if e.Unique != nil && e.Unique.Until == amboy.UniqueUntilStarted {
		s.freeKey(e)
	}
}

// freeKeyAtEnd releases the unique key of an entry that ended, unless it holds the key for
// longer.
func (s *Schedule[J]) freeKeyAtEnd(e *Entry[J]) {
	if e.Unique != nil && !e.Unique.outlivesEnd(e.succeeded) {
		s.freeKey(e)
	}
}

// outlivesEnd reports whether an entry holds the key after its end.
func (u *Unique) outlivesEnd(succeeded bool) bool {
	return u.Until == amboy.UniqueUntilForgotten || (u.Until == amboy.UniqueUntilFailed && succeeded)
}
