package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
)

// InvalidDefinitionError is why a definition can't be used.
type InvalidDefinitionError struct {
	// Name is the name of the definition.
	Name string
	// Field is the invalid field.
	Field string
	// Value is the field's value.
	Value any
	// Rule is what the field must satisfy.
	Rule string
}

// Error names the definition, the field, its value and the rule.
func (e *InvalidDefinitionError) Error() string {
	if text, ok := e.Value.(string); ok {
		return fmt.Sprintf("invalid definition of job type %q: %s %s (is %q)", e.Name, e.Field, e.Rule, text)
	}
	return fmt.Sprintf("invalid definition of job type %q: %s %s (is %v)", e.Name, e.Field, e.Rule, e.Value)
}

// DuplicateDefinitionError means that a definition can't be used because another
// definition or another registered type has its name.
type DuplicateDefinitionError struct{ Name string }

// Error includes the name.
func (e *DuplicateDefinitionError) Error() string {
	return fmt.Sprintf("job type %q is defined twice: a name must belong to only one definition or registered type", e.Name)
}

// WrongTypeError means that a job does not belong to a definition.
type WrongTypeError struct {
	// JobID is the ID of the job.
	JobID string
	// Want is the name of the definition's type, Have the name of the job's type.
	Want, Have string
}

// Error names the job and both types.
func (e *WrongTypeError) Error() string {
	if e.Want == e.Have {
		return fmt.Sprintf("job %q belongs to another definition of type %q", e.JobID, e.Have)
	}
	return fmt.Sprintf("job %q has type %q, not %q", e.JobID, e.Have, e.Want)
}

// IDTakenError means that a job was not put because a job of another type has its ID. It
// is a duplicate job error.
type IDTakenError struct {
	// ID is the ID of both jobs.
	ID string
	// Type is the type of the job that was not put, Holder the type of the existing job.
	Type, Holder string
	// Err is the queue's error.
	Err error
}

// Error includes the ID and both types.
func (e *IDTakenError) Error() string {
	return fmt.Sprintf("putting a job of type %q: a job of type %q has its ID %q: %v", e.Type, e.Holder, e.ID, e.Err)
}

// Unwrap returns the queue's error.
func (e *IDTakenError) Unwrap() error { return e.Err }

// idTaken returns an *IDTakenError if err, an error of Put, means that a job of another
// type has the job's ID. It returns any other error unchanged.
func idTaken(ctx context.Context, q amboy.Queue, j amboy.Job, err error) error {
	if !amboy.IsDuplicateJobError(err) || amboy.IsDuplicateJobScopeError(err) {
		return err
	}
	holder, ok := q.Get(ctx, j.ID())
	if !ok || holder.Type().Name == j.Type().Name {
		return err
	}
	return &IDTakenError{ID: j.ID(), Type: j.Type().Name, Holder: holder.Type().Name, Err: err}
}

// withJobID sets the job ID of an *amboy.InvalidJobError that has none.
func withJobID(err error, id string) error {
	var invalid *amboy.InvalidJobError
	if errors.As(err, &invalid) && invalid.JobID == "" {
		named := *invalid
		named.JobID = id
		return &named
	}
	return err
}
