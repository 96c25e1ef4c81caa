package schedule

// slot is the place of an entry in a heap. It contains a copy of the entry's key, so that
// sorting reads no entry. It is valid while its stamp equals the entry's: an entry leaves a
// heap by changing its stamp, and its slot is dropped later.
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

// arity is the number of children of a slot. With four, the heap is half as deep as with two,
// and siblings are adjacent in memory: a million jobs cost ten steps.
const arity = 4

// heap is a heap of slots, sorted by key and then by sequence number. Slots that are pushed in
// order, as most are, are kept in a sorted run beside it, where they cost no heap step. It
// counts the valid slots and drops the others when they are the majority, so that its size is
// bounded by the number of its entries.
type heap[J any] struct {
	slots []slot[J]
	// run is sorted from start on.
	run   []slot[J]
	start int
	live  int
	// deadlines is true for the heap of dispatch-by times. An entry can be in it and in
	// another heap at the same time.
	deadlines bool
}

func (h *heap[J]) valid(s *slot[J]) bool {
	if h.deadlines {
		return s.stamp == s.entry.deadlineStamp
	}
	return s.stamp == s.entry.stamp
}

// compactFrom is the size below which invalid slots are kept.
const compactFrom = 64

func (h *heap[J]) push(s slot[J]) {
	h.live++
	if last := len(h.run) - 1; last < h.start || !s.before(&h.run[last]) {
		h.append(s)
		return
	}
	h.slots = append(h.slots, s)
	h.up(len(h.slots) - 1)
}

// append adds a slot to the run. It reuses space at the beginning of the run before growing it.
func (h *heap[J]) append(s slot[J]) {
	if len(h.run) == cap(h.run) && h.start > len(h.run)/2 {
		h.run = moveDown(h.run, h.start)
		h.start = 0
	}
	h.run = append(h.run, s)
}

// moveDown moves the slots from an index on to the beginning.
func moveDown[J any](slots []slot[J], from int) []slot[J] {
	n := copy(slots, slots[from:])
	clear(slots[n:])
	return slots[:n]
}

// size returns the number of slots, including invalid ones.
func (h *heap[J]) size() int { return len(h.slots) + len(h.run) - h.start }

// left records that a slot became invalid.
func (h *heap[J]) left() {
	h.live--
	if size := h.size(); size >= compactFrom && size > 2*h.live {
		h.compact()
	}
}

// inRun reports whether the first slot is in the run.
func (h *heap[J]) inRun() bool {
	if h.start == len(h.run) {
		return false
	}
	return len(h.slots) == 0 || h.run[h.start].before(&h.slots[0])
}

// peek returns the first valid slot.
func (h *heap[J]) peek() (*slot[J], bool) {
	for h.size() > 0 {
		first := &h.run
		at := h.start
		if !h.inRun() {
			first, at = &h.slots, 0
		}
		if s := &(*first)[at]; h.valid(s) {
			return s, true
		}
		h.drop()
	}
	return nil, false
}

// all returns the valid slots, in no order.
func (h *heap[J]) all() []slot[J] {
	valid := make([]slot[J], 0, h.live)
	for _, slots := range [][]slot[J]{h.slots, h.run[h.start:]} {
		for i := range slots {
			if h.valid(&slots[i]) {
				valid = append(valid, slots[i])
			}
		}
	}
	return valid
}

// pop removes the first valid slot and returns its entry; nil if there is none.
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
	if h.inRun() {
		h.run[h.start] = slot[J]{}
		h.start++
		h.shrinkRun()
		return
	}
	last := len(h.slots) - 1
	h.slots[0] = h.slots[last]
	h.slots[last] = slot[J]{}
	h.slots = h.slots[:last]
	h.down(0)
	h.slots = shrunk(h.slots)
}

// shrinkRun frees unused memory of the run.
func (h *heap[J]) shrinkRun() {
	switch rest := h.run[h.start:]; {
	case len(rest) == 0:
		h.run, h.start = shrunk(h.run[:0]), 0
	case cap(h.run) >= 4*compactFrom && len(rest) < cap(h.run)/4:
		h.run, h.start = append(make([]slot[J], 0, 2*len(rest)), rest...), 0
	}
}

// shrunk frees unused memory.
func shrunk[J any](slots []slot[J]) []slot[J] {
	if cap(slots) >= 4*compactFrom && len(slots) < cap(slots)/4 {
		return append(make([]slot[J], 0, 2*len(slots)), slots...)
	}
	return slots
}

// compact drops the invalid slots.
func (h *heap[J]) compact() {
	h.slots = h.keepValid(h.slots)
	for i := (len(h.slots) - 2) / arity; i >= 0; i-- {
		h.down(i)
	}
	h.slots = shrunk(h.slots)
	h.run, h.start = h.keepValid(moveDown(h.run, h.start)), 0
	h.shrinkRun()
}

func (h *heap[J]) keepValid(slots []slot[J]) []slot[J] {
	kept := slots[:0]
	for i := range slots {
		if h.valid(&slots[i]) {
			kept = append(kept, slots[i])
		}
	}
	clear(slots[len(kept):])
	return kept
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
