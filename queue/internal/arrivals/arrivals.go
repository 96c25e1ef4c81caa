// Package arrivals keeps items in the order of their arrival.
package arrivals

import "sort"

// List keeps items in the order of their numbers; each added number is larger than those
// before. The places of removed items are kept until they are the majority. The zero value
// is empty. It has no lock: its owner guards it.
type List[E any] struct {
	places []place[E]
	empty  int // the number of empty places
}

// place is a place in the order. Its item is nil if it was removed.
type place[E any] struct {
	number uint64
	item   *E
}

// compactFrom is the size below which empty places are kept.
const compactFrom = 64

// Add adds an item whose number must be larger than those before.
func (l *List[E]) Add(number uint64, item *E) {
	l.places = append(l.places, place[E]{number, item})
}

// Remove removes the item that was added with a number.
func (l *List[E]) Remove(number uint64) {
	l.places[l.search(number)].item = nil
	l.empty++
	if len(l.places) >= compactFrom && 2*l.empty >= len(l.places) {
		l.compact()
	}
}

// compact drops the empty places, and frees unused memory.
func (l *List[E]) compact() {
	kept := l.places[:0]
	if size := len(l.places) - l.empty; cap(l.places) >= 4*compactFrom && size < cap(l.places)/8 {
		kept = make([]place[E], 0, 2*size)
	}
	for _, p := range l.places {
		if p.item != nil {
			kept = append(kept, p)
		}
	}
	clear(l.places[len(kept):])
	l.places, l.empty = kept, 0
}

// search returns the first place whose number is at least the given one. Its distance from
// the first place is at most the difference of the numbers, and equal to it if no place
// between them was dropped.
func (l *List[E]) search(number uint64) int {
	if len(l.places) == 0 || number <= l.places[0].number {
		return 0
	}
	last := len(l.places)
	if far := number - l.places[0].number; far < uint64(last) {
		last = int(far) //nolint:gosec // It is less than last.
		if l.places[last].number == number {
			return last
		}
	}
	return sort.Search(last, func(i int) bool { return l.places[i].number >= number })
}

// Next returns the first item after a number; nil if there is none.
func (l *List[E]) Next(number uint64) *E {
	for i := l.search(number); i < len(l.places); i++ {
		if p := l.places[i]; p.item != nil && p.number > number {
			return p.item
		}
	}
	return nil
}

// Previous returns the last item before a number; nil if there is none.
func (l *List[E]) Previous(number uint64) *E {
	for i := l.search(number) - 1; i >= 0; i-- {
		if item := l.places[i].item; item != nil {
			return item
		}
	}
	return nil
}

// All calls yield with the items, in order.
func (l *List[E]) All(yield func(*E) bool) {
	for _, p := range l.places {
		if p.item != nil && !yield(p.item) {
			return
		}
	}
}
