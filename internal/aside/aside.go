// Package aside keeps the stacks of goroutines small.
package aside

import "github.com/mongodb/amboy/internal/contain"

// Do calls f in a goroutine of its own, and returns when f has returned. A goroutine that waits for long
// keeps a stack of the size that its deepest call so far has needed. Thousands of them take much less memory if they
// do what needs a deep stack aside. If f panics, Do panics with that value and the stack of f.
func Do(f func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- contain.WithStack(recover()) }()
		f()
	}()
	if value := <-done; value != nil {
		panic(value)
	}
}
