package schedule

import "github.com/mongodb/amboy/queue/internal/nameset"

// Scopes are the scopes that a job must hold to run; nil for none. They don't change.
type Scopes struct {
	names   []string
	atPut   []string
	atStart []string // the others, each once
}

// NewScopes returns the scopes with the names. Add takes those of atPut, and Next the others.
func NewScopes(names, atPut []string) *Scopes {
	switch {
	case len(names) == 0 && len(atPut) == 0:
		return nil
	case len(names) == 1 && len(atPut) == 0:
		return &Scopes{names: names, atStart: names}
	default:
		return &Scopes{names: names, atPut: atPut, atStart: nameset.Without(names, atPut)}
	}
}

// Names returns all scopes.
func (s *Scopes) Names() []string {
	if s == nil {
		return nil
	}
	return s.names
}

// AtPut returns the scopes that Add takes.
func (s *Scopes) AtPut() []string {
	if s == nil {
		return nil
	}
	return s.atPut
}

// AtStart returns the scopes that Next takes, each once.
func (s *Scopes) AtStart() []string {
	if s == nil {
		return nil
	}
	return s.atStart
}
