// Package publictext finds what may be told of an error to those who use a service: what the
// library itself says of a job or a queue, and not what a store or a program says, which
// may name hosts and users.
package publictext

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
)

// Errorf returns an error whose text may be told.
func Errorf(format string, args ...any) error { return &public{fmt.Sprintf(format, args...)} }

type public struct{ text string }

func (e *public) Error() string { return e.text }

// Known returns the text of an error that it knows, without what is around that. It may be
// given an error that wraps others.
type Known func(err error) (text string, ok bool)

// Of returns the text that may be told of an error, and false if nothing may: no error that
// this package, or more, knows is in it.
func Of(err error, more ...Known) (text string, ok bool) {
	for _, known := range append(more, ofJob, ofQueue) {
		if text, ok := known(err); ok {
			return text, true
		}
	}
	return "", false
}

// As is a Known for errors of a type, which say nothing but what may be told.
func As[E error](err error) (text string, ok bool) {
	var found E
	if errors.As(err, &found) {
		return found.Error(), true
	}
	return "", false
}

// Is is a Known for errors of which there is one.
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
		return "a scope that the job takes when it is put is held by another", true
	case amboy.IsDuplicateJobError(err):
		return "there is a job with that ID, or that unique key, already", true
	case amboy.IsJobNotFoundError(err):
		return "there is no such job", true
	default:
		return "", false
	}
}

var ofQueue = Is(amboy.ErrQueueDraining, amboy.ErrQueueNotStarted, amboy.ErrQueueClosed, amboy.ErrGroupClosed)
