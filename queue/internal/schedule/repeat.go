package schedule

import "time"

// Repeat lets a running entry run again as its own next attempt, which arrives anew,
// is due at waitUntil and expires at dispatchBy; zero for now and never. Of its scopes
// it keeps those that Add took. It has its unique key where it still had it, and does
// not wait for its edges again, of which none counts as Failed. An entry that is not
// Running is left alone.
func (s *Schedule[J]) Repeat(e *Entry[J], waitUntil, dispatchBy, now time.Time) {
	if e.place != Running {
		return
	}
	s.leave(e)
	s.free(e, e.dispatch)
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
