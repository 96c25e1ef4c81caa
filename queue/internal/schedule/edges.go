package schedule

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
)

// links connect an entry with those that depend on it, and count the ones that
// it depends on.
type links[J any] struct {
	open       int
	failed     []string
	dependents []*Entry[J]
}

// open is true while the entry waits for others to end.
func (e *Entry[J]) open() bool { return e.links != nil && e.links.open > 0 }

func (e *Entry[J]) ensureLinks() *links[J] {
	if e.links == nil {
		e.links = &links[J]{}
	}
	return e.links
}

// checkEdges tells whether every edge names a job that is there.
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

// link counts the edges of an entry that have not ended, and makes the entry
// known to them; then to those that were waiting for it to be added.
func (s *Schedule[J]) link(e *Entry[J]) {
	for _, edge := range e.Edges {
		target, ok := s.byID[edge]
		switch {
		case !ok:
			if s.missing == nil {
				s.missing = map[string][]*Entry[J]{}
			}
			s.missing[edge] = append(s.missing[edge], e)
			e.ensureLinks().open++
		case target.place != Finished:
			target.ensureLinks().dependents = append(target.links.dependents, e)
			e.ensureLinks().open++
		case !target.succeeded:
			e.ensureLinks().failed = append(e.links.failed, edge)
		}
	}
	if waiting, ok := s.missing[e.ID]; ok {
		e.ensureLinks().dependents = append(e.links.dependents, waiting...)
		delete(s.missing, e.ID)
	}
}

// unlink tells the dependents of an entry that it ended.
func (s *Schedule[J]) unlink(e *Entry[J], now time.Time) {
	if e.links == nil {
		return
	}
	dependents := e.links.dependents
	e.links.dependents = nil
	for _, d := range dependents {
		d.links.open--
		if !e.succeeded {
			d.links.failed = append(d.links.failed, e.ID)
		}
		if d.links.open == 0 && d.place == Waiting {
			s.wait(d, now)
		}
	}
}

// Missing lists the edges that name no job, sorted. There are none unless
// ForwardEdges is set.
func (s *Schedule[J]) Missing() []string {
	var ids []string
	for id := range s.missing {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// cycle returns the path from an entry along the edges back to it, where adding
// it would close one.
func (s *Schedule[J]) cycle(e *Entry[J]) []string {
	if slices.Contains(e.Edges, e.ID) {
		return []string{e.ID, e.ID}
	}
	if len(s.missing[e.ID]) == 0 {
		return nil // nobody waits for it
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
			if ok && !seen[edge] && next.place != Finished {
				seen[edge] = true
				todo = append(todo, &step{entry: next, from: at})
			}
		}
	}
	return nil
}

// Sort puts a set of entries into an order in which each comes after those of
// the set that it depends on, else in the order given. Those in a cycle are left
// out: for each of them there is an *amboy.DependencyCycleError.
func Sort[J any](entries []*Entry[J]) (sorted []*Entry[J], cycles map[*Entry[J]]error) {
	if !slices.ContainsFunc(entries, func(e *Entry[J]) bool { return len(e.Edges) > 0 }) {
		return entries, nil
	}
	byID := make(map[string]*Entry[J], len(entries))
	for _, e := range entries {
		if _, twice := byID[e.ID]; !twice {
			byID[e.ID] = e
		}
	}
	open := make(map[*Entry[J]]int, len(entries))
	dependents := map[*Entry[J]][]*Entry[J]{}
	for _, e := range entries {
		for _, edge := range e.Edges {
			if target, ok := byID[edge]; ok {
				open[e]++
				dependents[target] = append(dependents[target], e)
			}
		}
	}
	// Kahn's algorithm: Communications of the ACM 5 (1962), 558-562.
	for _, e := range entries {
		if open[e] == 0 {
			sorted = append(sorted, e)
		}
	}
	for i := 0; i < len(sorted); i++ {
		for _, d := range dependents[sorted[i]] {
			if open[d]--; open[d] == 0 {
				sorted = append(sorted, d)
			}
		}
	}
	if len(sorted) == len(entries) {
		return sorted, nil
	}
	left := func(e *Entry[J]) bool { return open[e] > 0 }
	cycles = findCycles(entries, byID, left)
	for _, e := range entries {
		if left(e) && cycles[e] == nil {
			sorted = append(sorted, e) // it depends on a cycle, and is refused for that
		}
	}
	return sorted, cycles
}

// findCycles walks from each entry that is left along the edges to others that
// are, until it comes back to one that it passed.
func findCycles[J any](entries []*Entry[J], byID map[string]*Entry[J], left func(*Entry[J]) bool) map[*Entry[J]]error {
	cycles := map[*Entry[J]]error{}
	passed := map[*Entry[J]]int{} // the number of the walk
	for walk, start := range entries {
		var path []*Entry[J]
		e := start
		for left(e) && passed[e] == 0 {
			passed[e] = walk + 1
			path = append(path, e)
			for _, edge := range e.Edges {
				if next, ok := byID[edge]; ok && left(next) {
					e = next
					break
				}
			}
		}
		if !left(e) || passed[e] != walk+1 {
			continue
		}
		loop := path[slices.Index(path, e):]
		var ids []string
		for _, member := range loop {
			ids = append(ids, member.ID)
		}
		err := &amboy.DependencyCycleError{Path: append(ids, ids[0])}
		for _, member := range loop {
			cycles[member] = err
		}
	}
	return cycles
}
