package schedule

import (
	"cmp"
	groupheap "container/heap"
	"slices"
	"strconv"
	"strings"
)

// Entries that need the same scopes wait together in a group: a scope that blocks the first
// of them blocks them all. So a group is in one line, that of the scope which blocks it, and
// is moved to another line as a whole, whatever the number of its entries.
//
// For each group in the line of a scope, one of these is true: another job holds the scope;
// it is promised to an entry that runs before the group's first; or it is in
// Schedule.unsettled.

// line is the state of one scope.
type line[J any] struct {
	// promised is the Ready entry that the scope is promised to; nil if there is none.
	promised *Entry[J]
	groups   groups[J]
	// unsettled is true while the scope is in Schedule.unsettled.
	unsettled bool
}

// first returns the entry that the scope is for: the one that it is promised to or, while
// several scopes are being promised, the first waiting one; nil if there is none.
func (l *line[J]) first() *Entry[J] {
	switch {
	case l.promised != nil:
		return l.promised
	case len(l.groups) > 0:
		return l.groups[0].first.entry
	default:
		return nil
	}
}

// group holds the ScopeBlocked entries that need the same scopes. It is never empty.
type group[J any] struct {
	key     groupKey
	scope   string // the scope in whose line the group is
	index   int    // its index in that line
	waiting heap[J]
	first   slot[J] // a copy of the first of waiting
}

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

// groups are the groups in one line, a heap in the order of their first entries.
type groups[J any] []*group[J]

func (g groups[J]) Len() int           { return len(g) }
func (g groups[J]) Less(i, j int) bool { return g[i].first.before(&g[j].first) }

func (g groups[J]) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

func (g *groups[J]) Push(x any) {
	added := x.(*group[J])
	added.index = len(*g)
	*g = append(*g, added)
}

func (g *groups[J]) Pop() any {
	last := len(*g) - 1
	removed := (*g)[last]
	(*g)[last] = nil
	*g = (*g)[:last]
	return removed
}

func (s *Schedule[J]) line(scope string) *line[J] {
	l := s.lines[scope]
	if l == nil {
		if s.lines == nil {
			s.lines = map[string]*line[J]{}
		}
		l = &line[J]{}
		s.lines[scope] = l
	}
	return l
}

// join makes an entry wait for a scope, in its group.
func (s *Schedule[J]) join(e *Entry[J], scope string) {
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
		s.enter(g, scope)
	case added.before(&g.first):
		// A scope that blocks an entry may not block one that runs before it.
		g.first = added
		s.moveGroup(g, scope)
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
	groupheap.Fix(&s.lines[g.scope].groups, g.index)
}

// moveGroup moves a group whose first entry may have changed to the line of a scope.
func (s *Schedule[J]) moveGroup(g *group[J], scope string) {
	if g.scope == scope {
		groupheap.Fix(&s.lines[scope].groups, g.index)
		return
	}
	s.exit(g)
	s.enter(g, scope)
}

func (s *Schedule[J]) enter(g *group[J], scope string) {
	g.scope = scope
	groupheap.Push(&s.line(scope).groups, g)
}

func (s *Schedule[J]) exit(g *group[J]) {
	l := s.lines[g.scope]
	groupheap.Remove(&l.groups, g.index)
	s.dropLine(g.scope, l)
}

// dropLine removes the line of a scope if it is empty.
func (s *Schedule[J]) dropLine(scope string, l *line[J]) {
	if l.promised == nil && len(l.groups) == 0 {
		delete(s.lines, scope)
	}
}

// settleAtOnce is the maximum number of groups that one call examines.
const settleAtOnce = 16

// promote gives free scopes to the first entries that wait for them and need nothing else. If
// that requires examining many groups, the rest is left to Settle.
func (s *Schedule[J]) promote(scopes []string) {
	before := len(s.unsettled)
	for _, scope := range slices.Backward(scopes) {
		if l := s.lines[scope]; l != nil && !l.unsettled {
			l.unsettled = true
			s.unsettled = append(s.unsettled, scope)
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
		scope := s.unsettled[last]
		l := s.lines[scope]
		if l == nil || !s.isOpen(scope, l) {
			s.unsettled = s.unsettled[:last]
			if l != nil {
				l.unsettled = false
				s.dropLine(scope, l)
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

// isOpen reports whether a scope is free and not promised, and an entry waits for it.
func (s *Schedule[J]) isOpen(scope string, l *line[J]) bool {
	_, held := s.holders.Holder(scope)
	return !held && l.promised == nil && len(l.groups) > 0
}

// promoteFirst makes the first entry of a line Ready, or moves its group to the line of the
// scope that blocks it.
func (s *Schedule[J]) promoteFirst(l *line[J]) {
	g := l.groups[0]
	e := g.first.entry
	if scope, blocked := s.obstacle(e); blocked {
		s.moveGroup(g, scope)
		return
	}
	g.waiting.pop()
	e.stamp++
	e.group = nil
	s.update(g)
	s.makeReady(e)
}
