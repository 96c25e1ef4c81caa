package schedule

import "slices"

// Held returns the scopes that an entry holds, each once; nil if it holds none.
func (s *Schedule[J]) Held(e *Entry[J]) []string {
	if e.place == Finished {
		return nil // another job may have its ID by now
	}
	var held []string
	for _, name := range e.Scopes.Names() {
		if s.holders.Holds(e.ID, name) && !slices.Contains(held, name) {
			held = append(held, name)
		}
	}
	return held
}

// HoldsAny reports whether an entry holds a scope.
func (s *Schedule[J]) HoldsAny(e *Entry[J]) bool {
	return e.place != Finished && slices.ContainsFunc(e.Scopes.Names(), func(name string) bool { return s.holders.Holds(e.ID, name) })
}
