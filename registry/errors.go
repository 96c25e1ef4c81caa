package registry

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// ErrUnknownType is wrapped by the errors of types under whose names nothing is registered.
var ErrUnknownType = errors.New("type is not registered")

// ErrTypeTaken is wrapped by the error of RegisterJobType for a name that is already
// registered.
var ErrTypeTaken = errors.New("type is already registered")

// UnknownTypeError means that no factory is registered under a job type's name. It wraps
// ErrUnknownType.
type UnknownTypeError struct {
	// JobID is the job's ID; empty if the error is not about a job.
	JobID string
	// Type is the name of the type.
	Type string
}

// Error names the job and the type.
func (e *UnknownTypeError) Error() string {
	if e.JobID == "" {
		return fmt.Sprintf("job type %q is not registered", e.Type)
	}
	return fmt.Sprintf("type %q of job %q is not registered", e.Type, e.JobID)
}

// Unwrap returns ErrUnknownType.
func (e *UnknownTypeError) Unwrap() error { return ErrUnknownType }

// VersionError means that a job or its dependency manager was stored under a version of
// its type that this process can't read: a newer one, or an older one without an upgrade.
type VersionError struct {
	// JobID is the job's ID.
	JobID string
	// Type is the name of the job's type.
	Type string
	// Manager is the name of the dependency manager's type if the version is that of the
	// manager, and empty otherwise.
	Manager string
	// Stored is the version under which the job was stored.
	Stored int
	// Current is the registered version of the type.
	Current int
}

// Error names the job, its type and both versions.
func (e *VersionError) Error() string {
	if e.Manager != "" {
		return fmt.Sprintf("the dependency of type %q of job %q was stored under version %d, but this process has version %d",
			e.Manager, e.JobID, e.Stored, e.Current)
	}
	return fmt.Sprintf("job %q of type %q was stored under version %d, but this process has version %d and no upgrade between them",
		e.JobID, e.Type, e.Stored, e.Current)
}

// IsUnknown reports whether an error of Resolve means that this process does not know the
// type, or the version of the type, of the job or of its dependency manager. Another
// process may know it, and so may this process after another registration. IsUnknown is
// false if the type is known but the stored form can't be decoded, whatever the reason.
func IsUnknown(err error) bool {
	var malformed *MalformedError
	if errors.As(err, &malformed) {
		return false
	}
	var unread *VersionError
	return errors.Is(err, ErrUnknownType) || errors.Is(err, dependency.ErrUnknownType) || errors.As(err, &unread)
}

// MalformedError means that the stored form of a job can't be decoded.
type MalformedError struct {
	// JobID is the job's ID; empty if it could not be decoded.
	JobID string
	// Type is the name of the job's type; empty if it could not be decoded.
	Type string
	// Err is the cause.
	Err error
}

// Error names the job and its type, and includes the cause.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("stored form of job %q of type %q can't be read: %v", e.JobID, e.Type, e.Err)
}

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// EncodeError means that a job can't be encoded.
type EncodeError struct {
	// JobID is the job's ID.
	JobID string
	// Type is the name of its type.
	Type string
	// Format is the format in which the job was to be encoded.
	Format amboy.Format
	// Field is what can't be encoded: "job", or "args" or "result" of a typed job.
	Field string
	// Value is the value of the field.
	Value any
	// Err is the cause.
	Err error
}

// Error names the job, its type, the format and the field with its Go type, and includes
// the cause.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("encoding job %q of type %q as %s: %s (of Go type %T) can't be encoded: %v", e.JobID, e.Type, e.Format, e.Field, e.Value, e.Err)
}

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }
