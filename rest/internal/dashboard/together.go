package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
)

// together makes reads at the same time, and returns when all have ended. The error is
// that of the first of those that failed, in the order in which they are given. Where one
// panics it does so too, so that the server knows.
func together(reads ...func() error) error {
	errs := make([]error, len(reads))
	panics := make([]any, len(reads))
	var reading sync.WaitGroup
	for i, read := range reads {
		reading.Go(func() {
			defer func() { panics[i] = caught(recover()) }()
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

// caught is what a panic is passed on as, with the stack, which is gone elsewhere; nil
// where there was none.
func caught(value any) any {
	if value == nil || value == http.ErrAbortHandler { //nolint:errorlint // It is compared as net/http does.
		return value
	}
	return fmt.Sprintf("%v\n%s", value, debug.Stack())
}
