package middleware

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/mongodb/amboy"
)

// Recover returns middleware that calls onPanic for each panic of a job, and of middleware
// inside it, and makes the panic an error of the attempt. A queue survives panics without
// it: use it to report panics elsewhere. For a job that does not embed job.Base, onPanic
// is called only for panics of middleware. onPanic runs on the goroutine of the job,
// before the attempt has ended in the queue.
func Recover(onPanic func(ctx context.Context, j amboy.Job, panicked *amboy.PanicError)) amboy.Middleware {
	return amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			err := recovered(ctx, j, next)
			var panicked *amboy.PanicError
			if errors.As(err, &panicked) {
				onPanic(ctx, j, panicked)
			}
			return err
		}
	}}
}

// recovered calls next and returns its panic as an error.
func recovered(ctx context.Context, j amboy.Job, next amboy.RunFunc) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return next(ctx, j)
}
