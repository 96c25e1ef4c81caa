package management

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// timeline builds the timeline of a job from its latest record, its attempts and the actions of
// operators.
func timeline(r *driver.Record, attempts []Attempt, acts []Moment, now time.Time) []Moment {
	t := &moments{now: now, state: driver.StateOf(r, now), retries: r.RetryInfo.Retryable, list: slices.Clone(acts)}
	for _, e := range r.Status.Attempts {
		if !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Number == e.Attempt }) {
			t.addError(e, time.Time{})
		}
	}
	for _, a := range attempts {
		t.addAttempt(a, r)
	}
	t.addPresent(r, acts)
	// Stores keep some times more precisely than others.
	slices.SortStableFunc(t.list, func(a, b Moment) int {
		return a.Time.Truncate(time.Millisecond).Compare(b.Time.Truncate(time.Millisecond))
	})
	return t.list
}

// moments collects the moments of a timeline.
type moments struct {
	now     time.Time
	state   amboy.JobState
	retries bool
	list    []Moment
}

// add adds a moment, unless its time is zero.
func (t *moments) add(at time.Time, what, detail string) {
	if !at.IsZero() {
		t.list = append(t.list, Moment{Time: showable(at), What: what, Detail: detail, Future: at.After(t.now)})
	}
}

// askedToEnd returns when a running job was asked to end: when an operator first canceled it since its
// start, or now if that is not known.
func (t *moments) askedToEnd(start time.Time, acts []Moment) time.Time {
	asked := t.now
	for _, act := range acts {
		if act.What == string(Cancel) && !act.Time.Before(start) && act.Time.Before(asked) {
			asked = act.Time
		}
	}
	return asked
}

// parked returns when an operator last parked the job, or now if none did: stores do not keep when
// a queue did.
func (t *moments) parked(acts []Moment) time.Time {
	var parked time.Time
	for _, act := range acts {
		if act.What == string(Park) {
			parked = latest(parked, act.Time)
		}
	}
	if parked.IsZero() {
		return t.now
	}
	return parked
}

// withAttempt appends the number of the attempt if the job is retryable. Users count
// attempts from 1.
func (t *moments) withAttempt(what string, attempt int) string {
	if !t.retries {
		return what
	}
	return fmt.Sprintf("%s (attempt %d)", what, attempt+1)
}

// addError adds an error, and the start of the run that reported it if that is not the last one,
// which began at lastStart: an operator's retry runs the same attempt again.
func (t *moments) addError(e amboy.AttemptError, lastStart time.Time) {
	if !e.Started.IsZero() && !sameTime(e.Started, lastStart) && !slices.ContainsFunc(t.list, func(m Moment) bool { return sameTime(m.Time, e.Started) && strings.HasPrefix(m.What, "started") }) {
		t.add(e.Started, t.withAttempt("started", e.Attempt), "")
	}
	what := "error"
	if e.Bookkeeping {
		what = "error of the queue"
	}
	t.add(e.At, t.withAttempt(what, e.Attempt), e.Error)
}

// addAttempt adds the moments of an attempt, including its errors. r is the record of the
// latest attempt.
func (t *moments) addAttempt(a Attempt, r *driver.Record) {
	if a.Number == 0 {
		t.add(a.Created, "created", "")
	} else {
		t.add(a.Created, t.withAttempt("created again", a.Number), "")
	}
	if due := r.TimeInfo.WaitUntil; a.Number == r.RetryInfo.CurrentAttempt && due.After(a.Created) {
		t.add(due, t.withAttempt("due", a.Number), "")
	}
	detail := ""
	if a.Owner != "" {
		detail = "by " + a.Owner
	}
	started := a.Started
	if !started.IsZero() && started.Before(a.Created) {
		started = a.Created // the claim began before the job was put
	}
	t.add(started, t.withAttempt("started", a.Number), detail)
	for _, e := range r.Status.Attempts {
		if e.Attempt == a.Number {
			t.addError(e, a.Started)
		}
	}
	if a.State.IsFinal() || a.State == amboy.StateRetrying {
		t.add(a.Ended, t.withAttempt(endedAs(a.State), a.Number), driver.LastError(a.Errors))
	}
}

// endedAs describes how an attempt ended.
func endedAs(state amboy.JobState) string {
	if state == amboy.StateRetrying {
		return "failed, to be retried"
	}
	return string(state)
}

// addPresent adds the current state of the job, and expected events.
func (t *moments) addPresent(r *driver.Record, acts []Moment) {
	times := r.TimeInfo
	switch {
	case t.state == amboy.StateBlocked:
		t.add(earliest(t.now, blockedSince(r, acts)), string(t.state), r.Status.Reason)
	case t.state == amboy.StateParked:
		t.add(t.parked(acts), string(t.state), r.Status.Reason)
	case t.state == amboy.StateRunning && r.CancelRequested:
		t.add(t.askedToEnd(times.Start, acts), "asked to end", r.Status.Reason)
	case t.state == amboy.StateRunning && times.MaxTime > 0:
		t.add(times.Start.Add(times.MaxTime), "time limit", "")
	case t.state == amboy.StateRetrying:
		t.add(t.now, "waiting for a retry", "")
	}
	if times.Start.IsZero() && !t.state.IsFinal() {
		t.add(times.DispatchBy, "expires unless started", "")
	}
	if t.state.IsFinal() {
		t.add(r.ForgetAt, "removed", "")
	}
}
