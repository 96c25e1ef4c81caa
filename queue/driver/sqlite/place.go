package sqlite

import (
	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// place is where a record stands. The numbers are stored, and are those in the
// schema's indexes.
type place int

const (
	waiting      place = 0 // for other jobs to end
	scheduled    place = 1 // not due
	postponed    place = 2 // handed back until a time
	scopeBlocked place = 3
	ready        place = 4
	parked       place = 5
	running      place = 6
	retrying     place = 7 // ended an attempt, awaits the next
	finished     place = 8

	places = 9
)

// schedulePlaces are the places in the terms of the schedule.
var schedulePlaces = [places]schedule.Place{
	waiting:      schedule.Waiting,
	scheduled:    schedule.Scheduled,
	postponed:    schedule.Postponed,
	scopeBlocked: schedule.ScopeBlocked,
	ready:        schedule.Ready,
	parked:       schedule.Parked,
	running:      schedule.Running,
	retrying:     schedule.Retrying,
	finished:     schedule.Finished,
}

// statePlaces are the places where a record can stand that is in a state.
var statePlaces = map[amboy.JobState][]place{
	// A job whose time has come stays scheduled until the next claim.
	amboy.StateScheduled: {scheduled, ready},
	amboy.StatePending:   {scheduled, ready},
	amboy.StateBlocked:   {waiting, postponed, scopeBlocked},
	amboy.StateParked:    {parked},
	amboy.StateRunning:   {running},
	amboy.StateRetrying:  {retrying},
	amboy.StateSucceeded: {finished},
	amboy.StateFailed:    {finished},
	amboy.StateCanceled:  {finished},
	amboy.StateExpired:   {waiting, scheduled, postponed, scopeBlocked, ready, finished},
}

// placesOf lists, each once, the places of several states, all where none is
// given.
func placesOf(states []amboy.JobState) []place {
	var wanted [places]bool
	for _, state := range states {
		for _, p := range statePlaces[state] {
			wanted[p] = true
		}
	}
	var list []place
	for p := range place(places) {
		if wanted[p] || len(states) == 0 {
			list = append(list, p)
		}
	}
	return list
}
