package schedule

import "fmt"

// A scope is in one of three states: held by an entry, promised to a Ready entry, or free
// with no entry waiting for it. So every Ready entry can be started at once, however many
// wait for a scope, and waiting entries cost nothing until it is their turn. A promise goes
// to the entry that runs first, and is revoked when an entry comes that runs before it.

// admit makes an entry Ready, or makes it wait for the scope that blocks it.
func (s *Schedule[J]) admit(e *Entry[J]) {
	if name, blocked := s.obstacle(e); blocked {
		s.block(e, name)
		return
	}
	s.makeReady(e)
}

// makeReady makes an entry Ready and promises it its scopes, none of which blocks it.
func (s *Schedule[J]) makeReady(e *Entry[J]) {
	var freed []string
	for _, name := range e.Scopes.AtStart() {
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

// obstacle returns the first scope that blocks e: another job holds it, or it is for an
// entry that runs before e.
func (s *Schedule[J]) obstacle(e *Entry[J]) (name string, blocked bool) {
	for _, name := range e.Scopes.AtStart() {
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

// revoke takes back the promises of a Ready entry because of one scope, for which the entry
// then waits. It returns the other scopes.
func (s *Schedule[J]) revoke(e *Entry[J], because string) (freed []string) {
	e.stamp++
	s.leftReady(e)
	for _, name := range e.Scopes.AtStart() {
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
	for _, name := range e.Scopes.AtStart() {
		s.lines[name].promised = nil
	}
	s.promote(e.Scopes.AtStart())
}

// fulfill gives a starting entry the scopes that it was promised.
func (s *Schedule[J]) fulfill(e *Entry[J]) {
	if len(e.Scopes.AtStart()) == 0 {
		return
	}
	if err := s.holders.Acquire(e.ID, e.Scopes.AtStart()); err != nil {
		// The scopes were promised, so no other job can hold them.
		panic(fmt.Sprintf("schedule: a promised scope of job %q is held: %v", e.ID, err))
	}
	for _, name := range e.Scopes.AtStart() {
		l := s.lines[name]
		l.promised = nil
		s.dropLine(name, l)
	}
}

// take gives an entry the scopes that it holds from Add on. Promises of these scopes are
// revoked.
func (s *Schedule[J]) take(e *Entry[J], scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	if err := s.holders.Acquire(e.ID, scopes); err != nil {
		return err
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

// free releases the given scopes if the entry holds them.
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
