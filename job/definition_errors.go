package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
)

// InvalidDefinitionError says why a definition can't be used.
type InvalidDefinitionError struct {
	// Name is that of the definition.
	Name string
	// Field is what is wrong with it.
	Field string
	// Value is the value of that.
	Value any
	// Rule says what is allowed.
	Rule string
}

// Error names the definition, the field, its value and the rule.
func (e *InvalidDefinitionError) Error() string {
	return fmt.Sprintf("invalid definition of job type %q: %s %s (is %v)", e.Name, e.Field, e.Rule, e.Value)
}

// DuplicateDefinitionError says that a definition can't be used because its name is
// that of another definition, or of another registered type.
type DuplicateDefinitionError struct{ Name string }

// Error gives the name.
func (e *DuplicateDefinitionError) Error() string {
	return fmt.Sprintf("job type %q is defined twice: each name must be that of one definition, or of one registered type", e.Name)
}

// WrongTypeError says that a job is not one of a definition.
type WrongTypeError struct {
	// JobID is the ID of the job.
	JobID string
	// Want is the name of the definition's type, Have that of the job's.
	Want, Have string
}

// Error names the job and both types.
func (e *WrongTypeError) Error() string {
	if e.Want == e.Have {
		return fmt.Sprintf("job %q is of type %q, but not of this definition of it", e.JobID, e.Have)
	}
	return fmt.Sprintf("job %q is of type %q, and not of type %q", e.JobID, e.Have, e.Want)
}

// IDTakenError says that a job was not put because a job of another type has its ID.
// It is a duplicate job error.
type IDTakenError struct {
	// ID is that of both jobs.
	ID string
	// Type is the type of the job that was not put, Holder that of the one that is
	// there.
	Type, Holder string
	// Err is the queue's error.
	Err error
}

// Error gives the ID and the types.
func (e *IDTakenError) Error() string {
	return fmt.Sprintf("putting a job of type %q: a job of type %q has its ID %q: %v", e.Type, e.Holder, e.ID, e.Err)
}

// Unwrap returns the queue's error.
func (e *IDTakenError) Unwrap() error { return e.Err }

// idTaken says of an error of Put where it is about the ID, which a job of another
// type has.
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

// withJobID names the job in an *amboy.InvalidJobError.
func withJobID(err error, id string) error {
	var invalid *amboy.InvalidJobError
	if errors.As(err, &invalid) && invalid.JobID == "" {
		named := *invalid
		named.JobID = id
		return &named
	}
	return err
}
