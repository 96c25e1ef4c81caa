package schedule

// slot is an entry's place in a heap. It has the entry's key by value, so that
// sorting reads no entry. It is valid while its stamp is the entry's: an entry
// leaves a heap by changing its stamp, and its slot is dropped later.
type slot[J any] struct {
	key   int64
	seq   uint64
	stamp uint32
	entry *Entry[J]
}

func (s *slot[J]) before(t *slot[J]) bool {
	if s.key != t.key {
		return s.key < t.key
	}
	return s.seq < t.seq
}

// arity is the number of children of a slot. Four make the heap half as deep as
// two would, and stand side by side in memory: a million jobs cost ten steps.
const arity = 4

// heap is a heap of slots, smallest key first, then smallest sequence number. It counts the slots that are valid and drops the others when they are
// the majority, so that its size is bounded by what is in it.
type heap[J any] struct {
	slots []slot[J]
	live  int
	// deadlines is true for the heap of dispatch-by times, in which an entry
	// is beside its place among the others.
	deadlines bool
}

func (h *heap[J]) valid(s *slot[J]) bool {
	if h.deadlines {
		return s.stamp == s.entry.deadlineStamp
	}
	return s.stamp == s.entry.stamp
}

// compactFrom is the size below which dead slots are left alone.
const compactFrom = 64

func (h *heap[J]) push(s slot[J]) {
	h.live++
	h.slots = append(h.slots, s)
	h.up(len(h.slots) - 1)
}

// left records that a slot became invalid.
func (h *heap[J]) left() {
	h.live--
	if len(h.slots) >= compactFrom && len(h.slots) > 2*h.live {
		h.compact()
	}
}

// peek returns the first valid slot.
func (h *heap[J]) peek() (*slot[J], bool) {
	for len(h.slots) > 0 {
		if s := &h.slots[0]; h.valid(s) {
			return s, true
		}
		h.drop()
	}
	return nil, false
}

// all are the valid slots, in no order.
func (h *heap[J]) all() []slot[J] {
	valid := make([]slot[J], 0, h.live)
	for i := range h.slots {
		if h.valid(&h.slots[i]) {
			valid = append(valid, h.slots[i])
		}
	}
	return valid
}

// pop removes the entry of the first valid slot and returns it; nil where there
// is none.
func (h *heap[J]) pop() *Entry[J] {
	s, ok := h.peek()
	if !ok {
		return nil
	}
	e := s.entry
	h.drop()
	h.left()
	return e
}

// drop removes the first slot.
func (h *heap[J]) drop() {
	last := len(h.slots) - 1
	h.slots[0] = h.slots[last]
	h.slots[last] = slot[J]{}
	h.slots = h.slots[:last]
	h.down(0)
	h.shrink()
}

// shrink gives memory back that is not used.
func (h *heap[J]) shrink() {
	if cap(h.slots) >= 4*compactFrom && len(h.slots) < cap(h.slots)/4 {
		h.slots = append(make([]slot[J], 0, 2*len(h.slots)), h.slots...)
	}
}

func (h *heap[J]) compact() {
	kept := h.slots[:0]
	for i := range h.slots {
		if h.valid(&h.slots[i]) {
			kept = append(kept, h.slots[i])
		}
	}
	clear(h.slots[len(kept):])
	h.slots = kept
	for i := (len(kept) - 2) / arity; i >= 0; i-- {
		h.down(i)
	}
	h.shrink()
}

func (h *heap[J]) up(i int) {
	moving := h.slots[i]
	for i > 0 {
		parent := (i - 1) / arity
		if !moving.before(&h.slots[parent]) {
			break
		}
		h.slots[i] = h.slots[parent]
		i = parent
	}
	h.slots[i] = moving
}

func (h *heap[J]) down(i int) {
	n := len(h.slots)
	if i >= n {
		return
	}
	moving := h.slots[i]
	for {
		first := arity*i + 1
		if first >= n {
			break
		}
		child := first
		for sibling := first + 1; sibling < min(first+arity, n); sibling++ {
			if h.slots[sibling].before(&h.slots[child]) {
				child = sibling
			}
		}
		if !h.slots[child].before(&moving) {
			break
		}
		h.slots[i] = h.slots[child]
		i = child
	}
	h.slots[i] = moving
}
