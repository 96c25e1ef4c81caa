package management

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// verdict is what the state of a job says to an action.
type verdict int

const (
	refused verdict = iota
	// needless: the job is as the action would leave it.
	needless
	allowed
)

// rule says in which states an action is allowed, and in which there is nothing to do.
// It is refused in the others.
type rule struct {
	allowed, needless []amboy.JobState
	// text says it to a person, after the name of the action.
	text string
}

var (
	notStartedStates = []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked}
	unfinishedStates = []amboy.JobState{
		amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked, amboy.StateRunning, amboy.StateRetrying,
	}
	endedStates        = []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
	unsuccessfulStates = []amboy.JobState{amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
)

// rules has the rule of each action.
var rules = map[ActionKind]rule{
	Retry: {
		allowed:  slices.Concat(unsuccessfulStates, []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked}),
		needless: []amboy.JobState{amboy.StatePending, amboy.StateRunning, amboy.StateRetrying},
		text:     "is for jobs that are scheduled, have failed, were canceled or have expired; a parked one is released",
	},
	Cancel: {
		allowed:  unfinishedStates,
		needless: []amboy.JobState{amboy.StateCanceled},
		text:     "is for jobs that have not ended",
	},
	Park: {
		allowed:  notStartedStates,
		needless: []amboy.JobState{amboy.StateParked},
		text:     "is for jobs that have not started",
	},
	Release: {
		allowed:  []amboy.JobState{amboy.StateParked},
		needless: slices.Concat(notStartedStates, []amboy.JobState{amboy.StateRunning, amboy.StateRetrying}),
		text:     "is for jobs that are parked",
	},
	Reschedule: {
		allowed: notStartedStates,
		text:    "is for jobs that have not started; a parked one is released first",
	},
	Prioritize: {
		allowed: unfinishedStates,
		text:    "is for jobs that have not ended",
	},
	Complete: {
		allowed:  unfinishedStates,
		needless: endedStates,
		text:     "is for jobs that have not ended",
	},
	Abandon: {
		allowed:  []amboy.JobState{amboy.StateRunning},
		needless: notStartedStates,
		text:     "is for jobs that are running",
	},
	Delete: {
		allowed: endedStates,
		text:    "is for jobs that have ended; one that has not is canceled first",
	},
}

// overdueText says why nothing is done about a job that did not start in time, and that
// nobody has ended yet.
const overdueText = "is possible when a process that has the queue has ended the job, which did not start in time"

// on says what a job's state, at a time, says to the action. text says why it is
// refused.
func (a Action) on(r *driver.Record, now time.Time) (v verdict, text string) {
	state := driver.StateOf(r, now)
	rule := rules[a.Kind]
	switch {
	case state == amboy.StateExpired && !r.Status.Completed:
		return a.onOverdue()
	case slices.Contains(rule.needless, state) || a.wouldChangeNothing(r, state):
		return needless, ""
	case slices.Contains(rule.allowed, state):
		return allowed, ""
	default:
		return refused, rule.text
	}
}

// onOverdue is for a job that did not start in time, which shows as expired though
// nobody has ended it yet.
func (a Action) onOverdue() (v verdict, text string) {
	switch a.Kind {
	case Complete:
		return allowed, ""
	case Retry, Delete:
		return refused, overdueText
	default:
		return refused, rules[a.Kind].text
	}
}

// wouldChangeNothing tells whether a job has what the action would give it.
func (a Action) wouldChangeNothing(r *driver.Record, state amboy.JobState) bool {
	switch a.Kind {
	case Cancel:
		return r.CancelRequested
	case Prioritize:
		return r.Priority == *a.Priority && slices.Contains(unfinishedStates, state)
	case Reschedule:
		// A job that is blocked may have been handed back until another time.
		return (state == amboy.StateScheduled || state == amboy.StatePending) && sameTime(r.TimeInfo.WaitUntil, a.At)
	default:
		return false
	}
}

// sameTime compares times as stores keep them, to the millisecond.
func sameTime(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond }

// stored returns what is to be done to a job in a state, in the terms of a store.
// Complete and Abandon are none of them.
func (a Action) stored(state amboy.JobState, now time.Time) driver.Action {
	switch a.Kind {
	case Retry:
		if state.IsFinal() {
			return driver.Action{Kind: driver.Restart}
		}
		return driver.Action{Kind: driver.RunNow}
	case Cancel:
		return driver.Action{Kind: driver.Cancel, Reason: a.Reason, ForgetAt: now.Add(amboy.DefaultKeepOthers)}
	case Park:
		return driver.Action{Kind: driver.Park, Reason: a.Reason}
	case Release:
		return driver.Action{Kind: driver.Unpark}
	case Reschedule:
		return driver.Action{Kind: driver.Reschedule, At: a.At}
	case Prioritize:
		return driver.Action{Kind: driver.Prioritize, Priority: *a.Priority}
	default:
		return driver.Action{Kind: driver.Delete}
	}
}
