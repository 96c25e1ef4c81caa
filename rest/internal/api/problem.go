package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

// ProblemType is the content type of a Problem.
const ProblemType = "application/problem+json"

// Problem is the answer to a request that failed, as in RFC 9457.
type Problem struct {
	// Type is about:blank if the status is enough, otherwise a URN that distinguishes problems
	// with the same status.
	Type ProblemKind `json:"type"`
	// Title describes the type, Status is the HTTP status of the answer, and Detail describes the
	// problem.
	Title  string `json:"title"`
	Status int    `json:"status" minimum:"400" maximum:"599"`
	Detail string `json:"detail,omitempty"`
	// Errors describe what is wrong with the request.
	Errors []FieldError `json:"errors,omitempty"`
	// Duplicate describes a duplicate job.
	Duplicate *web.Duplicate `json:"duplicate,omitempty"`
	// Job, State, Action and Rule describe a state that forbids an action.
	Job    *management.JobRef `json:"job,omitempty"`
	State  amboy.JobState     `json:"state,omitempty"`
	Action RefusedAction      `json:"action,omitempty"`
	Rule   string             `json:"rule,omitempty"`
}

// RefusedAction is a management.ActionKind or management.Edit.
type RefusedAction string

// ProblemKind is the type of a Problem. After urn:amboy:problem: it is, with status 400,
// invalid-argument (errors list field, value and rule), invalid-job, invalid-token or
// dependency-cycle; with 401 unauthenticated (WWW-Authenticate tells why: the token is missing,
// wrong or expired); with 403 denied; with 404 unknown-queue, job-not-found or unknown-schedule;
// with 409 state, duplicate-job, duplicate-scope, schedule-exists, schedule-changed,
// queue-draining, unsupported, lease-lost or time-to-run; with 500 not-recorded (the action was
// done, but is not in the audit list); with 503 queue-closed or queue-not-started; with 507
// store-full (the disk of SQLite or PostgreSQL is full, and nothing was written). It is about:blank
// with 400 for an unreadable body, 403 for a page of another site, 404 for a path, 421 for a host
// that the service does not accept, 429 and a Retry-After header if a client watches or waits too
// often, and 503 if too many watch.
type ProblemKind string

// TypePrefix is the prefix of the type of a Problem that has a web.Kind. All others are Blank.
const (
	TypePrefix             = "urn:amboy:problem:"
	Blank      ProblemKind = "about:blank"
)

// ProblemTypes lists the types of problems.
func ProblemTypes() []ProblemKind {
	types := []ProblemKind{Blank}
	for _, kind := range slices.Sorted(maps.Keys(titles)) {
		types = append(types, TypePrefix+ProblemKind(kind))
	}
	return types
}

// FieldError describes what is wrong with a part of a request.
type FieldError struct {
	// Field is the name of the field or parameter that is not valid. A dot separates the names
	// of nested fields.
	Field string `json:"field"`
	Value string `json:"value,omitempty" description:"the value that was sent, cut if it is long"`
	Rule  string `json:"rule,omitempty" description:"what is allowed"`
}

// Refuse answers a request that failed with err.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(r.Context(), err)
	web.LogFailure(r, f, err)
	f.SetHeader(w.Header())
	w.Header().Set("Content-Type", ProblemType)
	web.WriteJSON(w, r, f.Status, problemOf(f, err))
}

// failureOf is like web.FailureOf, with another status for a draining queue: an operator has
// set that state, and it does not end by itself.
func failureOf(ctx context.Context, err error) *web.Failure {
	f := web.FailureOf(ctx, err)
	if f.Kind == web.KindQueueDraining {
		f.Status = http.StatusConflict
	}
	return f
}

func problemOf(f *web.Failure, err error) Problem {
	p := Problem{Type: Blank, Title: http.StatusText(f.Status), Status: f.Status, Detail: f.Text, Duplicate: f.Duplicate}
	if f.Kind != "" {
		p.Type, p.Title = TypePrefix+ProblemKind(f.Kind), titles[f.Kind]
	}
	if f.Field != "" && f.Kind != web.KindJobNotFound {
		p.Errors = []FieldError{{Field: f.Field, Value: f.Value, Rule: f.Rule}}
	}
	if all := arguments(err); len(all) > 1 {
		p.Errors = p.Errors[:0]
		for _, e := range all {
			one := web.Invalid(e.Field, e.Value, e.Rule)
			p.Errors = append(p.Errors, FieldError{Field: one.Field, Value: one.Value, Rule: one.Rule})
		}
	}
	var state *management.StateError
	if errors.As(err, &state) {
		p.Job, p.State, p.Action, p.Rule = &state.Job, state.State, RefusedAction(state.Action), state.Rule
	}
	return p
}

// arguments returns all errors about arguments that an error wraps.
func arguments(err error) []*management.InvalidArgumentError {
	switch e := err.(type) { //nolint:errorlint // It unwraps the error itself.
	case *management.InvalidArgumentError:
		return []*management.InvalidArgumentError{e}
	case interface{ Unwrap() error }:
		return arguments(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*management.InvalidArgumentError
		for _, one := range e.Unwrap() {
			all = append(all, arguments(one)...)
		}
		return all
	default:
		return nil
	}
}

// titles maps kinds to the titles of problems.
var titles = map[web.Kind]string{
	web.KindInvalid:         "Invalid argument",
	web.KindInvalidJob:      "Invalid job",
	web.KindCycle:           "Dependency cycle",
	web.KindUnknownQueue:    "Unknown queue",
	web.KindJobNotFound:     "Job not found",
	web.KindState:           "The state of the job forbids it",
	web.KindDuplicateJob:    "Duplicate job",
	web.KindDuplicateScope:  "Scope is held",
	web.KindUnsupported:     "Not supported here",
	web.KindDenied:          "Not allowed",
	web.KindUnauthenticated: "Not authenticated",
	web.KindQueueDraining:   "Queue is draining",
	web.KindQueueClosed:     "Queue is closed",
	web.KindNotStarted:      "Queue is not started",
	web.KindLeaseLost:       "Lease lost",
	web.KindRanTooLong:      "Time to run is over",
	web.KindBadToken:        "Invalid token",
	web.KindUnknownSchedule: "Unknown schedule",
	web.KindScheduleExists:  "Schedule exists",
	web.KindScheduleChanged: "Schedule has changed",
	web.KindNotRecorded:     "Not recorded",
	web.KindStoreFull:       "Store is full",
}
