package middleware

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/mongodb/amboy"
)

// Recover returns middleware that tells onPanic of each panic in a job, and in
// middleware that comes after it, which it makes an error of the attempt. A queue
// survives panics without it: it is for those who want to know of them, to report
// them somewhere. Of a job that does not embed job.Base only panics of middleware are
// seen. onPanic is called on the goroutine of the job, and before its attempt has
// ended in the queue.
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

// recovered calls next, and makes an error of its panic.
func recovered(ctx context.Context, j amboy.Job, next amboy.RunFunc) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return next(ctx, j)
}
