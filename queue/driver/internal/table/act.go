package table

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// actAtOnce is the maximum number of records that are selected at a time for an action.
const actAtOnce = 200

// ActOnSome acts on up to limit records of a span, which it moves. It may select none although
// there are more.
type ActOnSome func(at *Span, limit int) (driver.Acted, error)

// Act implements driver.Driver. begin is called once the request is known to be valid. Act ends
// before its limit if it finds no record for a time.
func Act(req driver.ActRequest, findTime time.Duration, begin func() (ActOnSome, error)) (driver.Acted, error) {
	fail := func(acted driver.Acted, err error) (driver.Acted, error) {
		return acted, fmt.Errorf("action %q: after %d records: %w", req.Action.Kind, acted.Done, err)
	}
	acted := driver.Acted{Next: req.After}
	if err := req.Action.Validate(); err != nil {
		return driver.Acted{}, err
	}
	if err := CheckLimit(req.Limit); err != nil {
		return fail(acted, err)
	}
	at, err := NewSpan(req.After, false)
	if err != nil {
		return fail(acted, err)
	}
	actOnSome, err := begin()
	if err != nil {
		return fail(acted, err)
	}
	for left, found := req.Limit, time.Now(); left > 0; {
		some, err := actOnSome(at, min(left, actAtOnce))
		if err != nil {
			return fail(acted, err)
		}
		acted.Done, acted.Skipped, acted.Next = acted.Done+some.Done, acted.Skipped+some.Skipped, some.Next
		selected := some.Done + some.Skipped
		if some.Next == "" || (selected == 0 && time.Since(found) > findTime) {
			break
		}
		if selected > 0 {
			found = time.Now()
		}
		left -= selected
	}
	return acted, nil
}

// Allows reports whether the state of a job allows an action. A restart has other conditions, too.
func (j *Job) Allows(kind driver.ActionKind, now int64) bool {
	switch p := j.Place; kind {
	case driver.Cancel, driver.Prioritize:
		return !p.Final()
	case driver.RunNow:
		return p == Scheduled || p == Postponed || (p == Waiting && j.WaitUntil.Int64 > now)
	case driver.Reschedule, driver.Park:
		return p < Parked
	case driver.Edit:
		return p <= Parked
	case driver.Unpark:
		return p == Parked
	case driver.Restart:
		return p.Final() && p != Succeeded
	case driver.Delete:
		return p.Final()
	default:
		return false
	}
}
