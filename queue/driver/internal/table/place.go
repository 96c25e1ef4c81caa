package table

import (
	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Place is the storage form of a record's state. The numbers are stored, and are used in the
// indexes and the statements of the drivers.
type Place int

// The places of records.
const (
	Waiting      Place = 0 // for other jobs to end
	Scheduled    Place = 1 // not due
	Postponed    Place = 2 // handed back until a time
	ScopeBlocked Place = 3 // waits for a scope
	Ready        Place = 4
	Parked       Place = 5
	Running      Place = 6
	Retrying     Place = 7 // ended an attempt and awaits the next
	Succeeded    Place = 8
	Failed       Place = 9
	Canceled     Place = 10
	Expired      Place = 11

	// Places is the number of places.
	Places = 12
)

// Final reports whether a record in this place has ended for good.
func (p Place) Final() bool { return p >= Succeeded }

var schedulePlaces = [Places]schedule.Place{
	Waiting:      schedule.Waiting,
	Scheduled:    schedule.Scheduled,
	Postponed:    schedule.Postponed,
	ScopeBlocked: schedule.ScopeBlocked,
	Ready:        schedule.Ready,
	Parked:       schedule.Parked,
	Running:      schedule.Running,
	Retrying:     schedule.Retrying,
	Succeeded:    schedule.Finished,
	Failed:       schedule.Finished,
	Canceled:     schedule.Finished,
	Expired:      schedule.Finished,
}

// Schedule returns the corresponding place of package schedule.
func (p Place) Schedule() schedule.Place { return schedulePlaces[p] }

// FinalPlace returns the place of a record that ends in a state.
func FinalPlace(state amboy.JobState) Place {
	switch state {
	case amboy.StateRetrying:
		return Retrying
	case amboy.StateFailed:
		return Failed
	case amboy.StateCanceled:
		return Canceled
	case amboy.StateExpired:
		return Expired
	default:
		return Succeeded
	}
}

// Count adds n records in this place to the description of their queue.
func (p Place) Count(info *driver.QueueInfo, n int) {
	stats := &info.Stats
	switch p {
	case Scheduled:
		info.Scheduled += n
	case Parked:
		info.Parked += n
	case Waiting, Postponed, ScopeBlocked:
		stats.Blocked += n
	case Running:
		stats.Running += n
	case Retrying:
		stats.Retrying += n
	}
	if p <= Parked {
		stats.Pending += n
	} else if p >= Retrying {
		stats.Completed += n
	}
	stats.Total += n
}
