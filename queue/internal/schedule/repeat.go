package schedule

import "time"

// Repeat makes a running entry its own next attempt, which arrives anew, is due at waitUntil
// (zero for now) and expires at dispatchBy (zero for never). It keeps its enqueue scopes, and
// its unique key if it still holds it. It does not wait for its edges again, and none of them
// counts as Failed. Repeat does nothing if the entry is not Running.
func (s *Schedule[J]) Repeat(e *Entry[J], waitUntil, dispatchBy, now time.Time) {
	if e.place != Running {
		return
	}
	s.leave(e)
	s.free(e, e.Scopes.AtStart())
	s.lastSeq++
	e.seq = s.lastSeq
	e.WaitUntil, e.DispatchBy = waitUntil, dispatchBy
	if e.links != nil {
		e.links.failed = nil
	}
	s.watchDeadline(e)
	if e.open() { // it expired before its edges ended
		s.setPlace(e, Waiting)
		return
	}
	s.wait(e, now)
}
