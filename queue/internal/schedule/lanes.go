package schedule

import (
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// movedAtOnce is the maximum number of entries that are moved to lanes under one lock.
const movedAtOnce = 1000

// A lane holds ready entries of one kind that NextBut has skipped, so that it does not read
// them again. No lanes exist before the first call of NextBut, and a lane is removed when it
// is empty. Entries of its kind that NextBut has not reached yet may still be in the heap
// ready; entries that become ready go into the lane.

// pushReady adds an entry that has become Ready to a lane or to the heap.
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

// leftReady uncounts an entry that is no longer Ready. Its stamp must have changed.
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

// Except holds the kinds that calls of NextBut skip.
type Except struct {
	kinds map[driver.Kind]bool
	// room limits the entries of some types; nil if none.
	room *typelimit.Room
	// moves is how many more entries may be moved to lanes, by all calls under one lock.
	moves *int
	// More is true after a call that found too many entries to skip. There may be others
	// behind them: call again with a new Except, after releasing the lock.
	More bool
}

// NewExcept returns an Except for the calls of NextBut under one lock.
func NewExcept(kinds []driver.Kind) *Except {
	x := &Except{kinds: make(map[driver.Kind]bool, len(kinds)), moves: new(movedAtOnce)}
	for _, kind := range kinds {
		x.kinds[kind] = true
	}
	return x
}

// Within returns an Except that also skips entries of types that have no more room, for the calls
// of NextBut of one Schedule under the same lock. NextBut takes the room of the entries that it
// returns.
func (x *Except) Within(room *typelimit.Room) *Except {
	return &Except{kinds: x.kinds, room: room, moves: x.moves}
}

// skips reports whether entries of a kind are skipped.
func (x *Except) skips(kind driver.Kind) bool {
	if x.kinds[kind] {
		return true
	}
	if x.room.Left(kind.Type) > 0 {
		return false
	}
	x.room.Refuse(kind.Type)
	return true
}

// NextBut is Next without the entries of some kinds. KindOf must be set.
func (s *Schedule[J]) NextBut(x *Except) *Entry[J] {
	if !s.setApart(x) {
		x.More = true
		return nil
	}
	e := s.next(x)
	if e != nil && x.room != nil {
		x.room.Take(s.KindOf(e).Type)
	}
	return e
}

// setApart moves the first ready entries into lanes, until it finds one whose kind is not
// skipped. It returns false if it must not move more.
func (s *Schedule[J]) setApart(x *Except) bool {
	for {
		first, ok := s.ready.peek()
		if !ok {
			return true
		}
		e := first.entry
		kind := s.KindOf(e)
		if !x.skips(kind) {
			return true
		}
		if *x.moves == 0 {
			return false
		}
		*x.moves--
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

// next removes and returns the entry that should run first, among the ready entries and the
// lanes that are not skipped; nil if there is none.
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
		if ok && (x == nil || !x.skips(kind)) && (best == nil || slot.before(best)) {
			best = slot
		}
	}
	if best == nil {
		return nil
	}
	return best.entry
}

// BeforeChange must be called before what KindOf returns for an entry changes.
func (s *Schedule[J]) BeforeChange(e *Entry[J]) {
	if e.apart {
		e.stamp++
		s.leftReady(e)
		s.ready.push(e.slot(priorityKey(e.Priority)))
	}
}
