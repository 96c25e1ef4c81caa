package schedule

import (
	"time"

	"github.com/mongodb/amboy"
)

// AddAt adds an entry that is already Running, Retrying or Finished, with the scopes and the
// unique key that it would hold there after Add. succeeded is how a Finished entry ended. The
// entry must have no Edges. The errors are those of Add.
func (s *Schedule[J]) AddAt(place Place, e *Entry[J], succeeded bool, now time.Time) error {
	if _, taken := s.byID[e.ID]; taken || (e.hasKeyAt(place, succeeded) && s.keyHolder(e) != nil) {
		return s.Duplicate(e)
	}
	if err := s.take(e, e.scopesAt(place)); err != nil {
		return err
	}
	if e.hasKeyAt(place, succeeded) {
		s.takeKey(e)
	}
	if s.byID == nil {
		s.byID = map[string]*Entry[J]{}
	}
	s.byID[e.ID] = e
	s.lastSeq++
	e.seq = s.lastSeq
	e.succeeded = succeeded
	s.tallyIn(e, place)
	s.link(e)
	if place == Finished {
		s.unlink(e, now)
		s.end(e)
	}
	return nil
}

// scopesAt returns the scopes that an entry holds in a place.
func (e *Entry[J]) scopesAt(place Place) []string {
	switch place {
	case Running:
		return e.Scopes.Names()
	case Finished:
		return nil
	default:
		return e.Scopes.AtPut()
	}
}

// hasKeyAt reports whether an entry holds its unique key in a place.
func (e *Entry[J]) hasKeyAt(place Place, succeeded bool) bool {
	switch {
	case e.Unique == nil:
		return false
	case place == Finished:
		return e.Unique.outlivesEnd(succeeded)
	default:
		return e.Unique.Until != amboy.UniqueUntilStarted
	}
}
