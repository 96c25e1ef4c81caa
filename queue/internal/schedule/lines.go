package schedule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	groupheap "github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// Entries that need the same scopes wait together in a group: a scope that blocks the first
// of them blocks them all. So a group is in one line, that of the scope which blocks it, and
// is moved to another line as a whole, whatever the number of its entries.
//
// For each group in the line of a scope, one of these is true: the scope has no room for the
// group's first entry, besides its holders and the earlier entries that it is promised to;
// it is not the line's first group; or the scope is in Schedule.unsettled.

// line is the state of one scope, or of the limited scopes of one key (see scope.Key).
type line[J any] struct {
	// promised are the Ready entries that the scope is promised to, in their order.
	promised []*Entry[J]
	groups   groupheap.Heap[*group[J]] // in the order of their first entries
	// unsettled is true while the scope is in Schedule.unsettled.
	unsettled bool
}

// limit returns the lowest limit of the entries that the key is promised to.
func (l *line[J]) limit(key string) int {
	lowest := l.promised[0].limit(key)
	for _, e := range l.promised[1:] {
		lowest = min(lowest, e.limit(key))
	}
	return lowest
}

// group holds the ScopeBlocked entries that need the same scopes. It is never empty.
type group[J any] struct {
	key      groupKey
	scope    string // the scope that blocks it, in whose line it is
	position int    // in that line
	waiting  heap[J]
	first    slot[J] // a copy of the first of waiting
}

func firstBefore[J any](a, b *group[J]) bool { return a.first.before(&b.first) }

func positionOf[J any](g *group[J]) *int { return &g.position }

// groupKey identifies a set of scopes.
type groupKey struct {
	size   int
	scopes string
}

func keyOf(scopes []string) groupKey {
	if len(scopes) == 1 {
		return groupKey{1, scopes[0]}
	}
	var b strings.Builder
	for _, scope := range slices.Sorted(slices.Values(scopes)) {
		b.WriteString(strconv.Itoa(len(scope)))
		b.WriteByte(':')
		b.WriteString(scope)
	}
	return groupKey{len(scopes), b.String()}
}

func (s *Schedule[J]) line(key string) *line[J] {
	l := s.lines[key]
	if l == nil {
		if s.lines == nil {
			s.lines = map[string]*line[J]{}
		}
		l = &line[J]{groups: groupheap.New(firstBefore[J], positionOf[J])}
		s.lines[key] = l
	}
	return l
}

// lineOf returns the line in which a group is.
func (s *Schedule[J]) lineOf(g *group[J]) *line[J] {
	key, _ := scope.Key(g.scope)
	return s.lines[key]
}

// join makes an entry wait for a scope, in its group.
func (s *Schedule[J]) join(e *Entry[J], name string) {
	key := keyOf(e.Scopes.AtStart())
	g := s.groups[key]
	if g == nil {
		if s.groups == nil {
			s.groups = map[groupKey]*group[J]{}
		}
		g = &group[J]{key: key}
		s.groups[key] = g
	}
	e.group = g
	added := e.slot(priorityKey(e.Priority))
	g.waiting.push(added)
	switch {
	case g.scope == "":
		g.first = added
		s.enter(g, name)
	case added.before(&g.first):
		// A scope that blocks an entry may not block one that runs before it.
		g.first = added
		s.moveGroup(g, name)
	}
}

// leaveGroup removes an entry whose stamp has changed from its group.
func (s *Schedule[J]) leaveGroup(e *Entry[J]) {
	g := e.group
	e.group = nil
	g.waiting.left()
	s.update(g)
}

// update restores the place of a group after an entry left it.
func (s *Schedule[J]) update(g *group[J]) {
	first, ok := g.waiting.peek()
	if !ok {
		s.exit(g)
		delete(s.groups, g.key)
		return
	}
	g.first = *first
	s.lineOf(g).groups.Put(g)
}

// moveGroup moves a group whose first entry may have changed to the line of a scope.
func (s *Schedule[J]) moveGroup(g *group[J], name string) {
	if g.scope == name {
		s.lineOf(g).groups.Put(g)
		return
	}
	s.exit(g)
	s.enter(g, name)
}

func (s *Schedule[J]) enter(g *group[J], name string) {
	g.scope = name
	key, _ := scope.Key(name)
	s.line(key).groups.Put(g)
}

func (s *Schedule[J]) exit(g *group[J]) {
	l := s.lineOf(g)
	l.groups.Remove(g)
	key, _ := scope.Key(g.scope)
	s.dropLine(key, l)
}

// dropLine removes the line of a key if it is empty.
func (s *Schedule[J]) dropLine(key string, l *line[J]) {
	if len(l.promised) == 0 && l.groups.Len() == 0 {
		delete(s.lines, key)
	}
}

// settleAtOnce is the maximum number of groups that one call examines.
const settleAtOnce = 16

// promote gives free scopes to the first entries that wait for them and need nothing else. If
// that requires examining many groups, the rest is left to Settle.
func (s *Schedule[J]) promote(scopes []string) {
	before := len(s.unsettled)
	for _, name := range slices.Backward(scopes) {
		key, _ := scope.Key(name)
		if l := s.lines[key]; l != nil && !l.unsettled {
			l.unsettled = true
			s.unsettled = append(s.unsettled, key)
		}
	}
	if !s.settling {
		s.settle(before)
	}
}

// Settle continues the work that was left when a scope was freed; see Unsettled.
func (s *Schedule[J]) Settle() { s.settle(0) }

// settle examines groups until at most until scopes are unsettled, or the limit of a call is
// reached. Scopes that were freed last come first.
func (s *Schedule[J]) settle(until int) {
	s.settling = true
	for left := cmp.Or(s.settleAtOnce, settleAtOnce); len(s.unsettled) > until; {
		last := len(s.unsettled) - 1
		key := s.unsettled[last]
		l := s.lines[key]
		if l == nil || !s.isOpen(key, l) {
			s.unsettled = s.unsettled[:last]
			if l != nil {
				l.unsettled = false
				s.dropLine(key, l)
			}
			continue
		}
		if left == 0 {
			break
		}
		left--
		s.examined++
		s.promoteFirst(l)
	}
	s.settling = false
}

// isOpen reports whether a key has room for the first entry that waits for it.
func (s *Schedule[J]) isOpen(key string, l *line[J]) bool {
	if l.groups.Len() == 0 {
		return false
	}
	first := l.groups.First().first.entry
	return !s.blocks(scope.Of(key, first.Scopes.AtStart()), first)
}

// promoteFirst makes the first entry of a line Ready, or moves its group to the line of the
// scope that blocks it.
func (s *Schedule[J]) promoteFirst(l *line[J]) {
	g := l.groups.First()
	e := g.first.entry
	if name, blocked := s.obstacle(e); blocked {
		s.moveGroup(g, name)
		return
	}
	g.waiting.pop()
	e.stamp++
	e.group = nil
	s.update(g)
	s.makeReady(e)
}
