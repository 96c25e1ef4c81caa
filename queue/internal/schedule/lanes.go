package schedule

import "github.com/mongodb/amboy/queue/driver"

// movedAtOnce is the number of entries, at most, that are set apart under one lock.
const movedAtOnce = 1000

// A lane has the ready entries of one kind that NextBut has met and left out, so that it
// does not meet them again. There is none before the first call of NextBut, and a lane
// is gone when it is empty. Entries of its kind that NextBut has not met yet may still
// stand among the others; those that become ready go into the lane.

// pushReady makes an entry known that is Ready.
func (s *Schedule[J]) pushReady(e *Entry[J]) {
	slot := e.slot(priorityKey(e.Priority))
	if len(s.lanes) > 0 {
		if lane := s.lanes[s.KindOf(e)]; lane != nil {
			e.apart = true
			lane.push(slot)
			return
		}
	}
	s.ready.push(slot)
}

// leftReady counts an entry out that is not Ready any more. Its stamp was changed.
func (s *Schedule[J]) leftReady(e *Entry[J]) {
	if !e.apart {
		s.ready.left()
		return
	}
	e.apart = false
	kind := s.KindOf(e)
	lane := s.lanes[kind]
	lane.left()
	s.dropEmpty(kind, lane)
}

func (s *Schedule[J]) dropEmpty(kind driver.Kind, lane *heap[J]) {
	if lane.live == 0 {
		delete(s.lanes, kind)
	}
}

// Except are kinds that calls of NextBut leave out.
type Except struct {
	kinds map[driver.Kind]bool
	// moves is how many more entries may be set apart.
	moves int
	// More is true after a call that met too many entries that are left out. There may
	// be others behind them: ask again with new Except, when others had the lock.
	More bool
}

// NewExcept returns the kinds for the calls of NextBut that are made under one lock.
func NewExcept(kinds []driver.Kind) *Except {
	x := &Except{kinds: make(map[driver.Kind]bool, len(kinds)), moves: movedAtOnce}
	for _, kind := range kinds {
		x.kinds[kind] = true
	}
	return x
}

// NextBut is Next that leaves out the entries of some kinds. KindOf must be set.
func (s *Schedule[J]) NextBut(x *Except) *Entry[J] {
	if !s.setApart(x) {
		x.More = true
		return nil
	}
	return s.next(x)
}

// setApart moves the first of the ready entries into lanes, until one comes whose kind is
// not left out. It returns false if it may move no more.
func (s *Schedule[J]) setApart(x *Except) bool {
	for {
		first, ok := s.ready.peek()
		if !ok {
			return true
		}
		e := first.entry
		kind := s.KindOf(e)
		if !x.kinds[kind] {
			return true
		}
		if x.moves == 0 {
			return false
		}
		x.moves--
		e.apart = true
		s.lane(kind).push(*first)
		s.ready.drop()
		s.ready.left()
	}
}

func (s *Schedule[J]) lane(kind driver.Kind) *heap[J] {
	lane := s.lanes[kind]
	if lane == nil {
		if s.lanes == nil {
			s.lanes = map[driver.Kind]*heap[J]{}
		}
		lane = &heap[J]{}
		s.lanes[kind] = lane
	}
	return lane
}

// next takes the entry that should run first, out of those that are ready and of the
// lanes that are not left out; nil if there is none.
func (s *Schedule[J]) next(x *Except) *Entry[J] {
	e := s.first(x)
	if e == nil {
		return nil
	}
	if e.apart {
		e.apart = false
		kind := s.KindOf(e)
		lane := s.lanes[kind]
		lane.pop()
		s.dropEmpty(kind, lane)
	} else {
		s.ready.pop()
	}
	s.start(e)
	return e
}

func (s *Schedule[J]) first(x *Except) *Entry[J] {
	best, _ := s.ready.peek()
	for kind, lane := range s.lanes {
		slot, ok := lane.peek()
		if ok && (x == nil || !x.kinds[kind]) && (best == nil || slot.before(best)) {
			best = slot
		}
	}
	if best == nil {
		return nil
	}
	return best.entry
}

// BeforeChange prepares an entry for a change of what KindOf returns.
func (s *Schedule[J]) BeforeChange(e *Entry[J]) {
	if e.apart {
		e.stamp++
		s.leftReady(e)
		s.ready.push(e.slot(priorityKey(e.Priority)))
	}
}
