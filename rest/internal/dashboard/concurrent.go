package dashboard

import (
	"cmp"
	"sync"

	"github.com/mongodb/amboy/internal/contain"
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
			defer func() { panics[i] = contain.WithStack(recover()) }()
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
