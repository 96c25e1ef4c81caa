// Package aside keeps the stacks of goroutines small.
package aside

import (
	"context"

	"github.com/mongodb/amboy/internal/contain"
)

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

type smallKey struct{}

// Small returns a context for calls that are to keep the stack of their goroutine small.
func Small(ctx context.Context) context.Context { return context.WithValue(ctx, smallKey{}, true) }

// DoIfSmall is Do if ctx is one of Small. Otherwise it calls f, which takes a few microseconds less.
func DoIfSmall(ctx context.Context, f func()) {
	if ctx.Value(smallKey{}) == nil {
		f()
		return
	}
	Do(f)
}
