package memory

import "sort"

// arrivals has entries in the order of their numbers, which is that in which they
// were added. It keeps the places of those that were removed, and drops them when
// they are the majority.
type arrivals struct {
	places []arrival
	empty  int // how many of the places are
}

// arrival is a place in the order. Its entry is nil where it was removed.
type arrival struct {
	number uint64
	entry  *entry
}

// add adds an entry whose number is larger than those before.
func (a *arrivals) add(e *entry) {
	a.places = append(a.places, arrival{number: e.Job.number, entry: e})
}

// compactFrom is the size below which empty places are left alone.
const compactFrom = 64

func (a *arrivals) remove(e *entry) {
	a.places[a.search(e.Job.number)].entry = nil
	a.empty++
	if len(a.places) < compactFrom || 2*a.empty < len(a.places) {
		return
	}
	kept := make([]arrival, 0, 2*(len(a.places)-a.empty))
	for _, p := range a.places {
		if p.entry != nil {
			kept = append(kept, p)
		}
	}
	a.places, a.empty = kept, 0
}

// search returns the first place whose number is at least the given one.
func (a *arrivals) search(number uint64) int {
	return sort.Search(len(a.places), func(i int) bool { return a.places[i].number >= number })
}

// next returns the first entry after a number; nil where there is none.
func (a *arrivals) next(number uint64) *entry {
	for i := a.search(number + 1); i < len(a.places); i++ {
		if e := a.places[i].entry; e != nil {
			return e
		}
	}
	return nil
}

// previous returns the last entry before a number; nil where there is none.
func (a *arrivals) previous(number uint64) *entry {
	for i := a.search(number) - 1; i >= 0; i-- {
		if e := a.places[i].entry; e != nil {
			return e
		}
	}
	return nil
}
