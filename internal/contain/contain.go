// Package contain keeps panics of the code of users from crossing into the library.
package contain

import (
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
