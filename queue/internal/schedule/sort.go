package schedule

import (
	"slices"

	"github.com/mongodb/amboy"
)

// Sort sorts a set of entries so that each comes after those of the set that it depends on,
// and otherwise keeps their order. Entries in a cycle are left out: cycles has an
// *amboy.DependencyCycleError for each of them.
func Sort[J any](entries []*Entry[J]) (sorted []*Entry[J], cycles map[*Entry[J]]error) {
	if !slices.ContainsFunc(entries, func(e *Entry[J]) bool { return len(e.Edges) > 0 }) {
		return entries, nil
	}
	targets := targetsAmong(entries)
	open := make(map[*Entry[J]]int, len(entries))
	dependents := map[*Entry[J]][]*Entry[J]{}
	for i, e := range entries {
		e.seq = uint64(i) // until Add
		open[e] = len(targets[e])
		for _, target := range targets[e] {
			dependents[target] = append(dependents[target], e)
		}
	}
	// Kahn's algorithm: Communications of the ACM 5 (1962), 558-562.
	var free heap[J]
	for _, e := range entries {
		if open[e] == 0 {
			free.push(e.slot(0))
		}
	}
	for e := free.pop(); e != nil; e = free.pop() {
		sorted = append(sorted, e)
		delete(targets, e)
		for _, d := range dependents[e] {
			open[d]--
			if open[d] == 0 {
				free.push(d.slot(0))
			}
		}
	}
	if len(sorted) == len(entries) {
		return sorted, nil
	}
	cycles = findCycles(entries, targets)
	for _, e := range entries {
		if open[e] > 0 && cycles[e] == nil {
			sorted = append(sorted, e) // it depends on a cycle, and Add refuses it for that
		}
	}
	return sorted, cycles
}

// targetsAmong returns the entries of a set on which each entry of the set depends. Among
// entries with the same ID the first counts, because it is the one that is added.
func targetsAmong[J any](entries []*Entry[J]) map[*Entry[J]][]*Entry[J] {
	byID := make(map[string]*Entry[J], len(entries))
	for _, e := range entries {
		if _, twice := byID[e.ID]; !twice {
			byID[e.ID] = e
		}
	}
	targets := make(map[*Entry[J]][]*Entry[J], len(entries))
	for _, e := range entries {
		for _, edge := range e.Edges {
			if target, ok := byID[edge]; ok {
				targets[e] = append(targets[e], target)
			}
		}
	}
	return targets
}

// cycleFinder finds the entries that depend on themselves, with Tarjan's
// algorithm: SIAM Journal on Computing 1 (1972), 146-160.
type cycleFinder[J any] struct {
	targets map[*Entry[J]][]*Entry[J]
	number  map[*Entry[J]]int // of each entry that was visited, from 1
	stack   []*Entry[J]       // visited entries whose component is not known yet
	stacked map[*Entry[J]]bool
	cycles  map[*Entry[J]]error
}

// findCycles returns an error for each entry that is in a cycle.
func findCycles[J any](entries []*Entry[J], targets map[*Entry[J]][]*Entry[J]) map[*Entry[J]]error {
	f := cycleFinder[J]{
		targets: targets,
		number:  map[*Entry[J]]int{},
		stacked: map[*Entry[J]]bool{},
		cycles:  map[*Entry[J]]error{},
	}
	for _, e := range entries {
		if len(targets[e]) > 0 && f.number[e] == 0 {
			f.visit(e)
		}
	}
	return f.cycles
}

// visit returns the smallest number of an entry on the stack that is reachable from e.
func (f *cycleFinder[J]) visit(e *Entry[J]) int {
	number := len(f.number) + 1
	f.number[e] = number
	height := len(f.stack)
	f.stack = append(f.stack, e)
	f.stacked[e] = true
	lowest := number
	for _, target := range f.targets[e] {
		switch {
		case f.number[target] == 0:
			lowest = min(lowest, f.visit(target))
		case f.stacked[target]:
			lowest = min(lowest, f.number[target])
		}
	}
	if lowest == number {
		f.report(f.stack[height:])
		f.stack = f.stack[:height]
	}
	return lowest
}

// report sets the error of the entries of a component, all of which lead to each other. A
// single entry is in a cycle only if it depends on itself.
func (f *cycleFinder[J]) report(component []*Entry[J]) {
	for _, e := range component {
		f.stacked[e] = false
	}
	if e := component[0]; len(component) == 1 && !slices.Contains(f.targets[e], e) {
		return
	}
	err := &amboy.DependencyCycleError{Path: f.loop(component)}
	for _, e := range component {
		f.cycles[e] = err
	}
}

// loop follows edges inside a component until it reaches an entry again.
func (f *cycleFinder[J]) loop(component []*Entry[J]) []string {
	inside := make(map[*Entry[J]]bool, len(component))
	for _, e := range component {
		inside[e] = true
	}
	passed := map[*Entry[J]]int{}
	var path []string
	e := component[0]
	for {
		start, before := passed[e]
		passed[e] = len(path)
		path = append(path, e.ID)
		if before {
			return path[start:]
		}
		e = f.targets[e][slices.IndexFunc(f.targets[e], func(t *Entry[J]) bool { return inside[t] })]
	}
}
