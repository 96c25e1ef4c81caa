package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
)

// runConcurrently calls functions concurrently, and returns after all have returned. It
// returns the error of the first function, in the order of the arguments, that failed. If
// one panics, it panics with that value, so that the server handles it.
func runConcurrently(reads ...func() error) error {
	errs := make([]error, len(reads))
	panics := make([]any, len(reads))
	var reading sync.WaitGroup
	for i, read := range reads {
		reading.Go(func() {
			defer func() { panics[i] = withStack(recover()) }()
			errs[i] = read()
		})
	}
	reading.Wait()
	for _, value := range panics {
		if value != nil {
			panic(value)
		}
	}
	return cmp.Or(errs...)
}

// withStack returns the value of a panic with its stack, which would be lost in another
// goroutine; nil if there was no panic.
func withStack(value any) any {
	if value == nil || value == http.ErrAbortHandler { //nolint:errorlint // It is compared as net/http does.
		return value
	}
	return fmt.Sprintf("%v\n%s", value, debug.Stack())
}
