package registry

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// ErrUnknownType is wrapped by the errors that say that nothing is registered
// under a type's name.
var ErrUnknownType = errors.New("type is not registered")

// ErrTypeTaken is wrapped by the error of RegisterJobType for a name that is
// registered already.
var ErrTypeTaken = errors.New("type is registered already")

// UnknownTypeError says that no factory is registered under a job type's name.
// It wraps ErrUnknownType.
type UnknownTypeError struct {
	// JobID is the job's ID, where there is a job.
	JobID string
	// Type is the name.
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

// VersionError says that a job, or its dependency manager, was stored under a version of
// its type that this process can't read: a newer one, or an older one without an upgrade.
type VersionError struct {
	// JobID is the job's ID.
	JobID string
	// Type is the name of the job's type.
	Type string
	// Manager is the name of the type of the dependency manager, if the version is that
	// of the manager.
	Manager string
	// Stored is the version under which the job was stored.
	Stored int
	// Current is the version of the registered type.
	Current int
}

// Error names the job, its type and both versions.
func (e *VersionError) Error() string {
	if e.Manager != "" {
		return fmt.Sprintf("the dependency of type %q of job %q was stored under version %d, and this process has version %d",
			e.Manager, e.JobID, e.Stored, e.Current)
	}
	return fmt.Sprintf("job %q of type %q was stored under version %d, and this process has version %d and no upgrade between them",
		e.JobID, e.Type, e.Stored, e.Current)
}

// IsUnknown reports whether an error of Resolve says that this process does not know the
// type of the job or of its dependency manager, or the version of either. Another process
// may know it, and so may this one after another registration. It is false if the type is
// known and what is stored can't be decoded, whatever the reason.
func IsUnknown(err error) bool {
	var malformed *MalformedError
	if errors.As(err, &malformed) {
		return false
	}
	var unread *VersionError
	return errors.Is(err, ErrUnknownType) || errors.Is(err, dependency.ErrUnknownType) || errors.As(err, &unread)
}

// MalformedError says that the stored form of a job can't be read.
type MalformedError struct {
	// JobID is the job's ID, where it could be read.
	JobID string
	// Type is the name of its type, where it could be read.
	Type string
	// Err says what is wrong.
	Err error
}

// Error names the job and its type, and says what is wrong.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("stored form of job %q of type %q can't be read: %v", e.JobID, e.Type, e.Err)
}

// Unwrap returns the error that says what is wrong.
func (e *MalformedError) Unwrap() error { return e.Err }

// EncodeError says that a job can't be encoded.
type EncodeError struct {
	// JobID is the job's ID.
	JobID string
	// Type is the name of its type.
	Type string
	// Format is that in which the job was to be stored.
	Format amboy.Format
	// Field is what can't be encoded: "job", or "args" or "result" of a typed one.
	Field string
	// Value is the value of that.
	Value any
	// Err says why.
	Err error
}

// Error names the job, its type, the format and the field with its Go type, and
// says why.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("encoding job %q of type %q as %s: %s (of Go type %T) can't be encoded: %v", e.JobID, e.Type, e.Format, e.Field, e.Value, e.Err)
}

// Unwrap returns the error that says why.
func (e *EncodeError) Unwrap() error { return e.Err }
