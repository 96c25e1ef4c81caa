// Package heap has a binary heap whose elements know their positions. An element in the middle can change
// or leave without a search for it.
package heap

import (
	"iter"
	"slices"
)

// Heap holds elements, and gives the least of them. An operation takes a time that is logarithmic in their
// number. It is not safe for concurrent use.
type Heap[E any] struct {
	less     func(a, b E) bool
	position func(E) *int
	elements []E
}

// New returns an empty heap. less reports whether a comes before b. position returns the variable in which
// the heap keeps the position of an element: 0 while the element is not in the heap. If it is nil, Put always
// adds, and Remove must not be called.
func New[E any](less func(a, b E) bool, position func(E) *int) Heap[E] {
	return Heap[E]{less: less, position: position}
}

// Len returns the number of elements.
func (h *Heap[E]) Len() int { return len(h.elements) }

// First returns the least element. It panics if there is none.
func (h *Heap[E]) First() E { return h.elements[0] }

// All yields the elements in no particular order. The heap must not change meanwhile.
func (h *Heap[E]) All() iter.Seq[E] { return slices.Values(h.elements) }

// Put adds an element. One that is in the heap it moves to its place, after its order has changed.
func (h *Heap[E]) Put(e E) {
	if h.position != nil {
		if at := *h.position(e); at != 0 {
			h.fixAt(at - 1)
			return
		}
	}
	h.elements = append(h.elements, e)
	h.up(len(h.elements) - 1)
}

// Pop removes the least element and returns it. It panics if there is none.
func (h *Heap[E]) Pop() E {
	first := h.elements[0]
	h.removeAt(0)
	return first
}

// Remove removes an element, if it is in the heap.
func (h *Heap[E]) Remove(e E) {
	if at := *h.position(e); at != 0 {
		h.removeAt(at - 1)
	}
}

// keptCapacity is how much room an empty heap keeps. That of more elements is freed.
const keptCapacity = 64

func (h *Heap[E]) removeAt(i int) {
	removed, last := h.elements[i], len(h.elements)-1
	h.elements[i] = h.elements[last]
	clear(h.elements[last:])
	h.elements = h.elements[:last]
	switch {
	case i < last:
		h.fixAt(i)
	case last == 0 && cap(h.elements) > keptCapacity:
		h.elements = nil
	}
	if h.position != nil {
		*h.position(removed) = 0
	}
}

// fixAt moves the element at an index to its place.
func (h *Heap[E]) fixAt(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// up moves the element at an index up to its place.
func (h *Heap[E]) up(i int) {
	e := h.elements[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(e, h.elements[parent]) {
			break
		}
		h.put(h.elements[parent], i)
		i = parent
	}
	h.put(e, i)
}

// down moves the element at an index down to its place, and reports whether it has moved.
func (h *Heap[E]) down(i int) (moved bool) {
	e := h.elements[i]
	for {
		child := 2*i + 1
		if child >= len(h.elements) {
			break
		}
		if right := child + 1; right < len(h.elements) && h.less(h.elements[right], h.elements[child]) {
			child = right
		}
		if !h.less(h.elements[child], e) {
			break
		}
		h.put(h.elements[child], i)
		i, moved = child, true
	}
	h.put(e, i)
	return moved
}

// put puts an element at an index.
func (h *Heap[E]) put(e E, i int) {
	h.elements[i] = e
	if h.position != nil {
		*h.position(e) = i + 1
	}
}
