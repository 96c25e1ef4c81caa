// Package publictext returns the part of an error that clients of a service may see: the text
// of the library's own errors about a job or a queue. It leaves out the errors of stores and
// programs, which may name hosts and users.
package publictext

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
)

// Errorf returns an error whose text is public.
func Errorf(format string, args ...any) error { return &public{fmt.Sprintf(format, args...)} }

type public struct{ text string }

func (e *public) Error() string { return e.text }

// Known returns the text of an error that it recognizes, possibly wrapped, without the text
// of the wrapping errors.
type Known func(err error) (text string, ok bool)

// Of returns the public text of an error. It returns false if neither this package nor more
// recognizes an error in it.
func Of(err error, more ...Known) (text string, ok bool) {
	for _, known := range append(more, ofJob, ofQueue) {
		if text, ok := known(err); ok {
			return text, true
		}
	}
	return "", false
}

// As is a Known for a type of errors whose texts are public.
func As[E error](err error) (text string, ok bool) {
	var found E
	if errors.As(err, &found) {
		return found.Error(), true
	}
	return "", false
}

// Is returns a Known for sentinel errors.
func Is(sentinels ...error) Known {
	return func(err error) (text string, ok bool) {
		for _, sentinel := range sentinels {
			if errors.Is(err, sentinel) {
				return sentinel.Error(), true
			}
		}
		return "", false
	}
}

func ofJob(err error) (text string, ok bool) {
	for _, known := range []Known{As[*public], As[*amboy.InvalidJobError], As[*amboy.DependencyCycleError]} {
		if text, ok := known(err); ok {
			return text, true
		}
	}
	switch {
	case amboy.IsDuplicateJobScopeError(err):
		return "another job holds a scope that the job takes when it is put", true
	case amboy.IsDuplicateJobError(err):
		return "a job with this ID or unique key already exists", true
	case amboy.IsJobNotFoundError(err):
		return "no such job", true
	default:
		return "", false
	}
}

var ofQueue = Is(amboy.ErrQueueDraining, amboy.ErrQueueNotStarted, amboy.ErrQueueClosed, amboy.ErrGroupClosed)
