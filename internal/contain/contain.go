// Package contain keeps panics of the code of users from crossing into the library.
package contain

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/mongodb/amboy"
)

// Panic calls f, and returns its error. If f panics, it returns an *amboy.PanicError with
// the stack.
func Panic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// ErrExited is the error of a function that called runtime.Goexit.
var ErrExited = errors.New("the goroutine ended before the call returned")

// Broken calls f, and returns its error. If f panics, it calls broken with an *amboy.PanicError, and
// returns what that returns. If f calls runtime.Goexit, it calls broken with ErrExited before the
// goroutine ends.
func Broken(f func() error, broken func(error) error) (err error) {
	returned := false
	defer func() {
		value := recover()
		switch {
		case value != nil:
			err = broken(&amboy.PanicError{Value: value, Stack: debug.Stack()})
		case !returned:
			err = broken(ErrExited)
		}
	}()
	err = f()
	returned = true
	return err
}

// Alone calls f in a goroutine of its own, and returns its error: an *amboy.PanicError if f panics, ErrExited if it calls
// runtime.Goexit, which ends no other goroutine then.
func Alone(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Broken(func() error {
			err = f()
			return nil
		}, func(broken error) error {
			err = broken
			return nil
		})
	}()
	<-done
	return err
}

// WithStack returns the value of a panic with its stack, for a panic with that value in another
// goroutine, which would lose the stack; nil if there was no panic. It is to be called by the deferred
// function that recovers.
func WithStack(value any) any {
	if value == nil || value == http.ErrAbortHandler { //nolint:errorlint // It is compared as net/http does.
		return value
	}
	return fmt.Sprintf("%v\n%s", value, debug.Stack())
}
