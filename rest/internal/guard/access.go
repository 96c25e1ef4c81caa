// Package guard enforces a program's rules about which request may read and change what.
// Every inspector that package rest serves is wrapped by it.
package guard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/internal/bearer"
	"github.com/mongodb/amboy/management"
)

// Action is what a request does.
type Action string

// The actions, besides those on jobs, which have the names of management.ActionKind.
const (
	// Read reads anything.
	Read Action = "read"
	// Create creates a job.
	Create Action = "create"
	// Control changes the controls of a queue.
	Control Action = "control"
	// Work leases jobs to an outside worker, renews leases and acknowledges jobs.
	Work Action = "work"
	// Reveal shows the arguments and the result of an encrypted job.
	Reveal Action = "reveal"
	// Schedule creates, changes, pauses, resumes and deletes stored schedules.
	Schedule Action = "schedule"
	// Trigger enqueues a job of a stored schedule now.
	Trigger Action = "trigger"
	// Edit changes the arguments, the priority or the time of a job that has not started.
	Edit Action = "edit"
)

// Actions lists all actions.
func Actions() []Action {
	actions := []Action{Read, Create, Control, Work, Reveal, Schedule, Trigger, Edit}
	for _, kind := range management.ActionKinds() {
		actions = append(actions, Action(kind))
	}
	return actions
}

// Access describes what a request is about to do. One request may need several.
type Access struct {
	// Action is the action: "read", "create", "control", "work", "reveal", "schedule",
	// "trigger", "edit", or a management.ActionKind.
	Action Action
	// Queue is the name of the queue. It identifies the tenant if the program has a queue
	// for each tenant.
	Queue string
	// AllQueues is true if the action concerns all queues; then Queue is empty.
	AllQueues bool
	// ID is the ID of the job, if the action concerns one. For Create it is empty if the
	// service will generate the ID. It is also empty for lists and for actions by a filter,
	// which may concern any job of the queue, even if the filter names IDs. A function that
	// denies access to some IDs must deny these too.
	ID string
	// Type is the type of the job for Create. For Work it is each type of jobs that a worker asks
	// for in a lease, and the type of each job whose lease it renews or that it acknowledges. It
	// may be any text. For Schedule and Trigger it is the type of the jobs of
	// the schedule; empty if the schedule does not exist. It is empty otherwise.
	Type string
}

// String describes the access.
func (a Access) String() string {
	if a.Type != "" {
		return fmt.Sprintf("%s of a job of type %q on queue %q", a.Action, a.Type, a.Queue)
	}
	if a.AllQueues {
		return fmt.Sprintf("%s on all queues", a.Action)
	}
	return fmt.Sprintf("%s on queue %q", a.Action, a.Queue)
}

// DeniedError reports that a request may not do something. It wraps the program's reason.
type DeniedError struct {
	Access Access
	Reason error
	// Cause is what the client receives of the reason; empty if the program gave the reason, because
	// it may not want to disclose it.
	Cause string
}

// Error names the access and the reason.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s is not allowed: %v", e.Access, e.Reason)
}

// Text names the access, and of the reason only the Cause.
func (e *DeniedError) Text() string {
	text := e.Access.String() + " is not allowed"
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	return text
}

// Unwrap returns the program's reason.
func (e *DeniedError) Unwrap() error { return e.Reason }

// ErrUnauthenticated is wrapped by the error of an Authorize function for a request that does not
// prove who sent it.
var ErrUnauthenticated = errors.New("the request is not authenticated")

// UnauthenticatedError reports that it is not known who sent a request. It wraps the program's
// reason.
type UnauthenticatedError struct {
	// HasToken is true if the request contains a bearer token.
	HasToken bool
	Reason   error
}

func (e *UnauthenticatedError) Error() string { return e.Text() + ": " + e.Reason.Error() }

// Text says what is wrong without the reason.
func (e *UnauthenticatedError) Text() string {
	if e.HasToken {
		return "the token was refused"
	}
	return "the request has no token"
}

// Challenge is the WWW-Authenticate header of the answer, as in RFC 6750.
func (e *UnauthenticatedError) Challenge() string {
	if e.HasToken {
		return `Bearer realm="amboy", error="invalid_token", error_description="the token is wrong or has expired"`
	}
	return `Bearer realm="amboy"`
}

// Unwrap returns the program's reason.
func (e *UnauthenticatedError) Unwrap() error { return e.Reason }

// NewUnauthenticatedError returns the error of a request.
func NewUnauthenticatedError(r *http.Request, reason error) *UnauthenticatedError {
	_, hasToken := bearer.Token(r)
	return &UnauthenticatedError{HasToken: hasToken, Reason: reason}
}

// Authorize decides whether a request may do something. A non-nil error is the reason why not.
type Authorize func(r *http.Request, access Access) error

// errNoRule is the reason if the program has not set an Authorize function.
var errNoRule = errors.New("the program that mounts the handler has no function that authorizes requests")

// denyAll denies everything.
func denyAll(*http.Request, Access) error { return errNoRule }
