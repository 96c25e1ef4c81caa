package management

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// verdict is the answer to whether an action is allowed for a job.
type verdict int

const (
	refused verdict = iota
	// unchanged: the job already is as the action would leave it.
	unchanged
	allowed
)

// rule lists the states in which an action is allowed, and those in which it changes
// nothing. It is refused in all other states.
type rule struct {
	allowed, unchanged []amboy.JobState
	// text explains the rule to an operator. It follows the name of the action.
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

// rules contains the rule of each action.
var rules = map[ActionKind]rule{
	Retry: {
		allowed:   slices.Concat(unsuccessfulStates, []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked}),
		unchanged: []amboy.JobState{amboy.StatePending, amboy.StateRunning, amboy.StateRetrying},
		text:      "requires a scheduled, failed, canceled or expired job; release a parked job instead",
	},
	Cancel: {
		allowed:   unfinishedStates,
		unchanged: []amboy.JobState{amboy.StateCanceled},
		text:      "requires a job that has not ended",
	},
	Park: {
		allowed:   notStartedStates,
		unchanged: []amboy.JobState{amboy.StateParked},
		text:      "requires a job that has not started",
	},
	Release: {
		allowed:   []amboy.JobState{amboy.StateParked},
		unchanged: slices.Concat(notStartedStates, []amboy.JobState{amboy.StateRunning, amboy.StateRetrying}),
		text:      "requires a parked job",
	},
	Reschedule: {
		allowed: notStartedStates,
		text:    "requires a job that has not started; release a parked job first",
	},
	Prioritize: {
		allowed: unfinishedStates,
		text:    "requires a job that has not ended",
	},
	Complete: {
		allowed:   unfinishedStates,
		unchanged: endedStates,
		text:      "requires a job that has not ended",
	},
	Abandon: {
		allowed:   []amboy.JobState{amboy.StateRunning},
		unchanged: notStartedStates,
		text:      "requires a running job",
	},
	Delete: {
		allowed: endedStates,
		text:    "requires a job that has ended; cancel it first",
	},
}

// overdueText explains why an action is refused for a job whose deadline passed before it
// started, and that no process has marked expired yet.
const overdueText = "is possible after a process that runs the queue has marked the job expired: its deadline has passed"

// verdictFor returns whether a job's state, at a given time, allows the action. text explains why
// it is refused.
func (a Action) verdictFor(r *driver.Record, now time.Time) (v verdict, text string) {
	state := driver.StateOf(r, now)
	rule := rules[a.Kind]
	switch {
	case state == amboy.StateExpired && !r.Status.Completed:
		return a.onOverdue()
	case slices.Contains(rule.unchanged, state) || a.wouldChangeNothing(r, state):
		return unchanged, ""
	case !slices.Contains(rule.allowed, state):
		return refused, rule.text
	case a.Kind == Reschedule && isTooLate(r, a.At):
		return refused, tooLateText
	default:
		return allowed, ""
	}
}

// tooLateText explains why a job is not rescheduled.
const tooLateText = "is not possible to a time after the deadline of the job: it would expire without having run"

// isTooLate reports whether a time to start is after the deadline of a job that has not started. Put
// refuses such a job.
func isTooLate(r *driver.Record, due time.Time) bool {
	deadline := r.TimeInfo.DispatchBy
	return !deadline.IsZero() && due.After(deadline)
}

// onOverdue is the verdict for a job whose deadline passed before it started. The job shows
// as expired although no process has marked it so yet.
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

// wouldChangeNothing reports whether a job already has the values that the action sets.
func (a Action) wouldChangeNothing(r *driver.Record, state amboy.JobState) bool {
	switch a.Kind {
	case Cancel:
		return r.CancelRequested
	case Prioritize:
		return r.Priority == *a.Priority && slices.Contains(unfinishedStates, state)
	case Reschedule:
		// A blocked job may have been handed back with a later start time.
		return (state == amboy.StateScheduled || state == amboy.StatePending) && sameTime(r.TimeInfo.WaitUntil, a.At)
	default:
		return false
	}
}

// sameTime compares times to the millisecond, the precision of the stores.
func sameTime(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond }

// driverAction translates the action into the driver action for a job in a given state, except for
// its ForgetAt. Complete and Abandon have no driver action.
func (a Action) driverAction(state amboy.JobState) driver.Action {
	switch a.Kind {
	case Retry:
		if state.IsFinal() {
			return driver.Action{Kind: driver.Restart, IgnoreEdges: a.IgnoreDependencies}
		}
		return driver.Action{Kind: driver.RunNow}
	case Cancel:
		return driver.Action{Kind: driver.Cancel, Reason: a.Reason}
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
