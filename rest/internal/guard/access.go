// Package guard keeps a program's rules about who may see and do what. All that package
// rest serves of management goes through it.
package guard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/management"
)

// Action is something that a request does.
type Action string

// The actions, besides those on jobs, which have the names of management.ActionKind.
const (
	// Read sees anything.
	Read Action = "read"
	// Create puts a job.
	Create Action = "create"
	// Control changes what is set for a queue.
	Control Action = "control"
)

// Actions lists the actions.
func Actions() []Action {
	actions := []Action{Read, Create, Control}
	for _, kind := range management.ActionKinds() {
		actions = append(actions, Action(kind))
	}
	return actions
}

// Access is what a request wants to do. A request may want several.
type Access struct {
	// Action is what it does: "read", "create", "control", or a management.ActionKind.
	Action Action
	// Queue is the queue that it is about, which is the tenant where a program has a
	// queue for each.
	Queue string
	// AllQueues is true where it is about all queues. Queue is empty then.
	AllQueues bool
	// ID is that of the job, if it is about one; for Create it is empty if the service is to
	// make one up. A list may show jobs whatever may be done to each.
	ID string
	// Type is that of the job for Create, and empty for all else. It may be any text.
	Type string
}

// String says it to a person.
func (a Access) String() string {
	if a.Type != "" {
		return fmt.Sprintf("%s of a job of type %q on queue %q", a.Action, a.Type, a.Queue)
	}
	if a.AllQueues {
		return fmt.Sprintf("%s on all queues", a.Action)
	}
	return fmt.Sprintf("%s on queue %q", a.Action, a.Queue)
}

// DeniedError says that a request may not do something. It wraps what the program said.
type DeniedError struct {
	Access Access
	Reason error
}

// Error says what was denied, and why.
func (e *DeniedError) Error() string { return fmt.Sprintf("%s: %v", e.Text(), e.Reason) }

// Text says what was denied, and not why.
func (e *DeniedError) Text() string { return e.Access.String() + " is not allowed" }

// Unwrap returns what the program said.
func (e *DeniedError) Unwrap() error { return e.Reason }

// Authorize decides whether a request may do something: the error says why not.
type Authorize func(r *http.Request, access Access) error

// errNoRule is why nothing may be done where a program does not say who may do what.
var errNoRule = errors.New("the program that mounts the handler has no function that authorizes requests")

// denyAll lets a request do nothing.
func denyAll(*http.Request, Access) error { return errNoRule }
