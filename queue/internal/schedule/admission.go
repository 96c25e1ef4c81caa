package schedule

import (
	"fmt"
	"slices"
	"sort"

	"github.com/mongodb/amboy/queue/internal/scope"
)

// A scope is held by entries, promised to Ready entries, or has room with no entry waiting for
// it. Holders and promises together are never more than its limit, nor than the limit of an entry
// that it is promised to. So every Ready entry can be started at once, however many wait for a
// scope, and waiting entries cost nothing until it is their turn. Promises go to the entries that
// run first, and are revoked when entries come that run before them.

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
		key, limit := scope.Key(name)
		freed = append(freed, s.shed(key, s.holders.Others(e.ID, name)+1, limit)...)
		l := s.line(key)
		at := sort.Search(len(l.promised), func(i int) bool { return e.before(l.promised[i]) })
		l.promised = slices.Insert(l.promised, at, e)
	}
	s.setPlace(e, Ready)
	s.pushReady(e)
	s.promote(freed)
}

// shed revokes the last promises of a key, until they and its holders are no more than the limit
// and the limits of the entries that have the promises. It returns the other scopes of entries
// that lost theirs.
func (s *Schedule[J]) shed(key string, holders, limit int) (freed []string) {
	l := s.lines[key]
	for l != nil && len(l.promised) > 0 && holders+len(l.promised) > min(limit, l.limit(key)) {
		freed = append(freed, s.revoke(l.promised[len(l.promised)-1], key)...)
		l = s.lines[key]
	}
	return freed
}

// obstacle returns the first scope that blocks e.
func (s *Schedule[J]) obstacle(e *Entry[J]) (name string, blocked bool) {
	for _, name := range e.Scopes.AtStart() {
		if s.blocks(name, e) {
			return name, true
		}
	}
	return "", false
}

// blocks reports whether a scope has no room for e besides its holders and the entries that run
// before e, or an entry that runs before e waits for it.
func (s *Schedule[J]) blocks(name string, e *Entry[J]) bool {
	key, limit := scope.Key(name)
	taken := s.holders.Others(e.ID, name)
	l := s.lines[key]
	if l == nil || taken >= limit {
		return taken >= limit
	}
	for _, p := range l.promised {
		if p.before(e) {
			taken++
			limit = min(limit, p.limit(key))
		}
	}
	return taken >= limit || (l.groups.Len() > 0 && l.groups.First().first.entry.before(e))
}

// limit returns the limit of an entry's scope of a key.
func (e *Entry[J]) limit(key string) int {
	_, limit := scope.Key(scope.Of(key, e.Scopes.AtStart()))
	return limit
}

// block makes an entry wait for a scope.
func (s *Schedule[J]) block(e *Entry[J], name string) {
	s.setPlace(e, ScopeBlocked)
	s.join(e, name)
}

// revoke takes back the promises of a Ready entry because of one key, for whose scope the entry
// then waits. It returns the other scopes.
func (s *Schedule[J]) revoke(e *Entry[J], because string) (freed []string) {
	e.stamp++
	s.leftReady(e)
	for _, name := range e.Scopes.AtStart() {
		if s.dropPromise(e, name) != because {
			freed = append(freed, name)
		}
	}
	s.block(e, scope.Of(because, e.Scopes.AtStart()))
	return freed
}

// withdraw takes back the promises of an entry that leaves Ready.
func (s *Schedule[J]) withdraw(e *Entry[J]) {
	for _, name := range e.Scopes.AtStart() {
		s.dropPromise(e, name)
	}
	s.promote(e.Scopes.AtStart())
}

// dropPromise takes back the promise of a scope to an entry, and returns the key of the scope.
func (s *Schedule[J]) dropPromise(e *Entry[J], name string) (key string) {
	key, _ = scope.Key(name)
	l := s.lines[key]
	at := slices.Index(l.promised, e)
	l.promised = slices.Delete(l.promised, at, at+1)
	return key
}

// fulfill gives a starting entry the scopes that it was promised.
func (s *Schedule[J]) fulfill(e *Entry[J]) {
	if len(e.Scopes.AtStart()) == 0 {
		return
	}
	if err := s.holders.Acquire(e.ID, e.Scopes.AtStart()); err != nil {
		// The scopes were promised, so there is room.
		panic(fmt.Sprintf("schedule: a promised scope of job %q is held: %v", e.ID, err))
	}
	for _, name := range e.Scopes.AtStart() {
		key := s.dropPromise(e, name)
		if l := s.lines[key]; key == name || l.groups.Len() == 0 {
			s.dropLine(key, l)
			continue
		}
		// The limit of e counts no more, so other entries may have room now.
		s.promote([]string{name})
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
		key, limit := scope.Key(name)
		freed = append(freed, s.shed(key, s.holders.Others("", name), limit)...)
	}
	s.promote(freed)
	return nil
}

// free releases the given scopes if the entry holds them.
func (s *Schedule[J]) free(e *Entry[J], scopes []string) {
	for i, name := range scopes {
		if s.holders.Holds(e.ID, name) {
			if err := s.holders.Release(e.ID, scopes[i:i+1]); err != nil {
				panic(fmt.Sprintf("schedule: scope %q of job %q can't be released by its holder: %v", name, e.ID, err))
			}
		}
	}
	s.promote(scopes)
}
