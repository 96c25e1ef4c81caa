package schedule

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Allows reports whether the place of an entry allows an action.
func (s *Schedule[J]) Allows(e *Entry[J], kind driver.ActionKind, now time.Time) bool {
	switch kind {
	case driver.Cancel, driver.Prioritize:
		return e.place != Finished
	case driver.RunNow:
		return e.place == Scheduled || e.place == Postponed || (e.place == Waiting && e.WaitUntil.After(now))
	case driver.Reschedule, driver.Park:
		return e.place.IsPending()
	case driver.Edit:
		return e.place.IsPending() || e.place == Parked
	case driver.Unpark:
		return e.place == Parked
	case driver.Restart:
		return s.Restartable(e) && !e.succeeded
	case driver.Delete:
		return e.place == Finished
	default:
		return false
	}
}
