package schedule

import "time"

// Reschedule gives an entry another time at which it is due, for which it waits
// then, also where it was Postponed. An entry that is Parked, or started, is left
// alone.
func (s *Schedule[J]) Reschedule(e *Entry[J], until, now time.Time) {
	if !e.place.IsPending() {
		return
	}
	e.WaitUntil = until
	e.Since = time.Time{}
	if e.place == Waiting {
		return
	}
	s.leave(e)
	s.watchDeadline(e)
	s.wait(e, now)
}

// Prioritize gives an entry another priority.
func (s *Schedule[J]) Prioritize(e *Entry[J], priority int) {
	e.Priority = priority
	if e.place == Ready || e.place == ScopeBlocked {
		s.leave(e)
		s.watchDeadline(e)
		s.admit(e)
	}
}
