package schedule

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
)

// links connect an entry with its dependents, and count its open dependencies.
type links[J any] struct {
	entry      *Entry[J] // the owner; of a retried job the last attempt
	open       int
	failed     []string
	dependents []*links[J]
}

// open reports whether the entry waits for other jobs to end.
func (e *Entry[J]) open() bool { return e.links != nil && e.links.open > 0 }

// waiting reports whether the links are those of an unfinished entry. A restarted entry has others
// than before.
func (l *links[J]) waiting() bool { return l.entry.links == l && l.entry.place != Finished }

func (e *Entry[J]) ensureLinks() *links[J] {
	if e.links == nil {
		e.links = &links[J]{entry: e}
	}
	return e.links
}

// inherit gives an entry the links of the previous attempt, without its failed edges.
func (e *Entry[J]) inherit(last *Entry[J]) {
	e.restarted = last.restarted
	if last.links == nil {
		return
	}
	e.links, last.links = last.links, nil
	e.links.entry = e
	e.links.failed = nil
}

// checkEdges returns an error if an edge names a job that does not exist.
func (s *Schedule[J]) checkEdges(e *Entry[J]) error {
	if s.ForwardEdges {
		return nil
	}
	for _, edge := range e.Edges {
		if _, ok := s.byID[edge]; !ok {
			return &amboy.InvalidJobError{
				JobID: e.ID,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}
		}
	}
	return nil
}

// link registers an entry with its open dependencies, and connects it to entries that were
// waiting for it to be added.
func (s *Schedule[J]) link(e *Entry[J]) {
	for _, edge := range e.Edges {
		target, ok := s.byID[edge]
		switch {
		case !ok && !s.ForwardEdges: // it was removed after the entry was added
		case !ok:
			if s.missing == nil {
				s.missing = map[string][]*links[J]{}
			}
			s.missing[edge] = append(s.missing[edge], e.ensureLinks())
			e.links.open++
		case target.place != Finished:
			l := target.ensureLinks()
			l.dependents = append(l.dependents, e.ensureLinks())
			e.links.open++
		case !target.succeeded:
			l := e.ensureLinks()
			l.failed = append(l.failed, edge)
		}
	}
	if waiting, ok := s.missing[e.ID]; ok {
		l := e.ensureLinks()
		l.dependents = append(l.dependents, waiting...)
		delete(s.missing, e.ID)
	}
}

// waitsFor reports whether an entry waits for an unfinished one that it has an edge to. It does not
// if that one had ended when the entry was added.
func (e *Entry[J]) waitsFor(target *Entry[J]) bool {
	return !target.restarted || (target.links != nil && slices.Contains(target.links.dependents, e.links))
}

// unlink updates the dependents of an entry that ended.
func (s *Schedule[J]) unlink(e *Entry[J], now time.Time) {
	if e.links == nil {
		return
	}
	dependents := e.links.dependents
	e.links.dependents = nil
	for _, d := range dependents {
		d.open--
		if !e.succeeded {
			d.failed = append(d.failed, e.ID)
		}
		if d.open == 0 && d.entry.links == d && d.entry.place == Waiting {
			s.wait(d.entry, now)
		}
	}
}

// Missing returns the sorted edges of unfinished entries that name no job. There are none
// unless ForwardEdges is set.
func (s *Schedule[J]) Missing() []string {
	var ids []string
	for id, waiting := range s.missing {
		if slices.ContainsFunc(waiting, (*links[J]).waiting) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// cycle returns the path from an entry along the edges back to it, if adding the entry would
// close such a path.
func (s *Schedule[J]) cycle(e *Entry[J]) []string {
	if slices.Contains(e.Edges, e.ID) {
		return []string{e.ID, e.ID}
	}
	if len(s.missing[e.ID]) == 0 {
		return nil // no entry waits for it
	}
	type step struct {
		entry *Entry[J]
		from  *step
	}
	seen := map[string]bool{}
	todo := []*step{{entry: e}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, edge := range at.entry.Edges {
			if edge == e.ID {
				path := []string{e.ID}
				for ; at != nil; at = at.from {
					path = append(path, at.entry.ID)
				}
				slices.Reverse(path)
				return path
			}
			next, ok := s.byID[edge]
			if ok && !seen[edge] && next.place != Finished && (at.from == nil || at.entry.waitsFor(next)) {
				seen[edge] = true
				todo = append(todo, &step{entry: next, from: at})
			}
		}
	}
	return nil
}
