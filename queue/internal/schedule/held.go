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

// Holds reports whether an entry holds a scope; any scope if the given one is empty.
func (s *Schedule[J]) Holds(e *Entry[J], scope string) bool {
	return e.place != Finished && slices.ContainsFunc(e.Scopes.Names(), func(name string) bool {
		return (scope == "" || name == scope) && s.holders.Holds(e.ID, name)
	})
}

// Find returns the entries with some IDs. If ids is nil, it returns those that may hold a scope: the
// holders of all scopes with its key.
func (s *Schedule[J]) Find(ids []string, held string) (found []*Entry[J]) {
	if ids == nil {
		ids = s.holders.Of(held)
	}
	for _, id := range ids {
		if e, ok := s.Get(id); ok {
			found = append(found, e)
		}
	}
	return found
}
