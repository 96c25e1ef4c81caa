package schedule

import "time"

// Reschedule sets when a pending entry is due. The entry then waits for that time, even if it
// was Postponed. A parked entry waits for it once it is not parked any more. Reschedule does
// nothing if the entry has started.
func (s *Schedule[J]) Reschedule(e *Entry[J], until, now time.Time) {
	if !e.place.IsPending() && e.place != Parked {
		return
	}
	e.WaitUntil = until
	e.Since = time.Time{}
	if e.place == Waiting || e.place == Parked {
		return
	}
	s.leave(e)
	s.watchDeadline(e)
	s.wait(e, now)
}

// Prioritize sets the priority of an entry.
func (s *Schedule[J]) Prioritize(e *Entry[J], priority int) {
	e.Priority = priority
	if e.place == Ready || e.place == ScopeBlocked {
		s.leave(e)
		s.watchDeadline(e)
		s.admit(e)
	}
}
