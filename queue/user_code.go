package queue

import (
	"runtime/debug"

	"github.com/mongodb/amboy"
)

// errorOfPanic calls f and returns its error. If f panics, it returns an
// *amboy.PanicError.
func errorOfPanic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
