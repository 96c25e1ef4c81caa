package table

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
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

// needsContent reports whether an action rewrites the content of a record. A record whose content can't be
// decoded is left out, so that the others are acted on.
func needsContent(a driver.Action) bool {
	switch a.Kind {
	case driver.Restart:
		return true
	case driver.Edit:
		return a.Edit.Body != nil
	default:
		return false
	}
}

// LogLeftOut logs that an action left out a record that can't be decoded.
func LogLeftOut(ctx context.Context, kind driver.ActionKind, record string, err error) {
	logging.Error(ctx, message.Fields{
		"message": "an action left out a stored record that can't be decoded",
		"action":  string(kind),
		"record":  record,
		"error":   err.Error(),
	})
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

// Steps are what actions do to one record, in a transaction of a driver.
type Steps interface {
	// MayRestart reports whether a job that has ended may run again: it is the latest attempt,
	// and no other job holds its unique key or an enqueue scope.
	MayRestart() (bool, error)
	// IsDamaged reports whether the record can't be decoded, and notes it for LogLeftOut.
	IsDamaged() bool
	// SaveCount stores the count of the job's lease, which was raised.
	SaveCount() error
	Cancel() error
	Reschedule(at Instant) error
	Prioritize(priority int) error
	Park() error
	Unpark() error
	Restart() error
	ReplaceBody(body registry.Body) error
	Delete() error
}

// ActOn does an action to a job, and reports whether the state of the job allows that. If dryRun is
// true, it changes nothing.
func ActOn(j *Job, a driver.Action, dryRun bool, now int64, steps Steps) (done bool, err error) {
	allowed := j.Allows(a.Kind, now)
	switch {
	case !allowed:
	case a.Kind == driver.Restart:
		allowed, err = steps.MayRestart()
	case a.IsStale(j.Count):
		allowed = false
	}
	if err == nil && allowed && needsContent(a) {
		allowed = !steps.IsDamaged()
	}
	if err != nil || !allowed || dryRun {
		return allowed, err
	}
	switch a.Kind {
	case driver.RunNow, driver.Reschedule, driver.Park, driver.Unpark, driver.Restart, driver.Edit:
		j.Count++
		err = steps.SaveCount()
	}
	if err == nil {
		err = takeSteps(j, a, now, steps)
	}
	if err != nil {
		return false, fmt.Errorf("record %q: %w", j.Name, err)
	}
	return true, nil
}

func takeSteps(j *Job, a driver.Action, now int64, steps Steps) error {
	switch a.Kind {
	case driver.Cancel:
		return steps.Cancel()
	case driver.RunNow:
		at := j.WaitUntil
		if at.Int64 > now {
			at = Instant{Int64: now, Valid: true}
		}
		return steps.Reschedule(at)
	case driver.Reschedule:
		return steps.Reschedule(InstantOf(a.At))
	case driver.Prioritize:
		return steps.Prioritize(a.Priority)
	case driver.Park:
		return steps.Park()
	case driver.Unpark:
		return steps.Unpark()
	case driver.Restart:
		return steps.Restart()
	case driver.Delete:
		return steps.Delete()
	default:
		return edit(a.Edit, steps)
	}
}

func edit(to *driver.EditedFields, steps Steps) error {
	if to.Body != nil {
		if err := steps.ReplaceBody(*to.Body); err != nil {
			return err
		}
	}
	if to.Priority != nil {
		if err := steps.Prioritize(*to.Priority); err != nil {
			return err
		}
	}
	if to.WaitUntil != nil {
		return steps.Reschedule(InstantOf(*to.WaitUntil))
	}
	return nil
}
