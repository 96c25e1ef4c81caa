package schedule

import (
	"fmt"
	"slices"
)

// A scope is held by one entry, or promised to one that is Ready, or free with
// nobody waiting for it. So every Ready entry can be started at once, however
// many wait for a scope, and those that wait cost nothing until it is their
// turn. A promise goes to the entry that runs before the others, and is
// withdrawn when a better one comes.

// dispatchScopes are the scopes that are taken when the entry starts, each once.
func (e *Entry[J]) dispatchScopes() []string {
	if len(e.Scopes) == 1 && len(e.EnqueueScopes) == 0 {
		return e.Scopes
	}
	return without(e.Scopes, e.EnqueueScopes)
}

// without lists the names, each once, that are not among the others.
func without(names, others []string) []string {
	var left []string
	for _, name := range names {
		if !slices.Contains(others, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	return left
}

// admit makes an entry Ready, or else makes it wait for the scope that is in its
// way.
func (s *Schedule[J]) admit(e *Entry[J]) {
	if name, blocked := s.obstacle(e); blocked {
		s.block(e, name)
		return
	}
	s.makeReady(e)
}

// makeReady promises an entry its scopes, in whose way nothing is.
func (s *Schedule[J]) makeReady(e *Entry[J]) {
	var freed []string
	for _, name := range e.dispatch {
		l := s.line(name)
		if worse := l.promised; worse != nil {
			freed = append(freed, s.revoke(worse, name)...)
		}
		l.promised = e
	}
	s.setPlace(e, Ready)
	s.pushReady(e)
	s.promote(freed)
}

// obstacle returns a scope that e must wait for: one that is held by another
// job, or is for one that runs before e.
func (s *Schedule[J]) obstacle(e *Entry[J]) (name string, blocked bool) {
	for _, name := range e.dispatch {
		if holder, held := s.holders.Holder(name); held && holder != e.ID {
			return name, true
		}
		if l := s.lines[name]; l != nil {
			if first := l.first(); first != nil && first.before(e) {
				return name, true
			}
		}
	}
	return "", false
}

// block makes an entry wait for a scope.
func (s *Schedule[J]) block(e *Entry[J], name string) {
	s.setPlace(e, ScopeBlocked)
	s.join(e, name)
}

// revoke takes a Ready entry's promises back, because of one scope, for which it
// waits then. It returns the others.
func (s *Schedule[J]) revoke(e *Entry[J], because string) (freed []string) {
	e.stamp++
	s.leftReady(e)
	for _, name := range e.dispatch {
		s.lines[name].promised = nil
		if name != because {
			freed = append(freed, name)
		}
	}
	s.block(e, because)
	return freed
}

// withdraw takes back the promises of an entry that leaves Ready.
func (s *Schedule[J]) withdraw(e *Entry[J]) {
	for _, name := range e.dispatch {
		s.lines[name].promised = nil
	}
	s.promote(e.dispatch)
}

// fulfill gives an entry that starts the scopes that it was promised.
func (s *Schedule[J]) fulfill(e *Entry[J]) {
	if len(e.dispatch) == 0 {
		return
	}
	if err := s.holders.Acquire(e.ID, e.dispatch); err != nil {
		// The scopes were promised, so nobody else can hold them.
		panic(fmt.Sprintf("schedule: a promised scope of job %q is held: %v", e.ID, err))
	}
	for _, name := range e.dispatch {
		l := s.lines[name]
		l.promised = nil
		s.dropLine(name, l)
	}
}

// take gives an entry the scopes that it holds from Add on. A promise of one of
// them is void.
func (s *Schedule[J]) take(e *Entry[J], scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	if err := s.holders.Acquire(e.ID, scopes); err != nil {
		return fmt.Errorf("taking the enqueue scopes of job %q: %w", e.ID, err)
	}
	var freed []string
	for _, name := range scopes {
		if l := s.lines[name]; l != nil && l.promised != nil {
			freed = append(freed, s.revoke(l.promised, name)...)
		}
	}
	s.promote(freed)
	return nil
}

// free releases those of the scopes that the entry holds.
func (s *Schedule[J]) free(e *Entry[J], scopes []string) {
	for i, name := range scopes {
		if holder, held := s.holders.Holder(name); held && holder == e.ID {
			if err := s.holders.Release(e.ID, scopes[i:i+1]); err != nil {
				panic(fmt.Sprintf("schedule: scope %q of job %q can't be released by its holder: %v", name, e.ID, err))
			}
		}
	}
	s.promote(scopes)
}
