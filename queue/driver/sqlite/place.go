package sqlite

import (
	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// place is the storage form of a record's state. The numbers are stored, and are used in the
// schema's indexes and in the statements.
type place int

const (
	waiting      place = 0 // for other jobs to end
	scheduled    place = 1 // not due
	postponed    place = 2 // handed back until a time
	scopeBlocked place = 3 // waits for a scope
	ready        place = 4
	parked       place = 5
	running      place = 6
	retrying     place = 7 // ended an attempt and awaits the next
	succeeded    place = 8
	failed       place = 9
	canceled     place = 10
	expired      place = 11

	places = 12
)

// final reports whether a record in this place has ended for good.
func (p place) final() bool { return p >= succeeded }

// schedulePlaces maps the places to those of package schedule.
var schedulePlaces = [places]schedule.Place{
	waiting:      schedule.Waiting,
	scheduled:    schedule.Scheduled,
	postponed:    schedule.Postponed,
	scopeBlocked: schedule.ScopeBlocked,
	ready:        schedule.Ready,
	parked:       schedule.Parked,
	running:      schedule.Running,
	retrying:     schedule.Retrying,
	succeeded:    schedule.Finished,
	failed:       schedule.Finished,
	canceled:     schedule.Finished,
	expired:      schedule.Finished,
}

// finalPlace returns the place of a record that ends in a state.
func finalPlace(state amboy.JobState) place {
	switch state {
	case amboy.StateRetrying:
		return retrying
	case amboy.StateFailed:
		return failed
	case amboy.StateCanceled:
		return canceled
	case amboy.StateExpired:
		return expired
	default:
		return succeeded
	}
}
