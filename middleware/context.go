package middleware

import (
	"context"

	"github.com/mongodb/amboy"
)

// Context returns middleware that calls with before each attempt and runs the job under the
// context that it returns. It gives jobs what they can't be stored with: a database handle, a
// client, a logger.
//
//	middleware.Context(func(ctx context.Context) context.Context {
//		return context.WithValue(ctx, databaseKey{}, db)
//	})
//
// with must return ctx or a context that is derived from it. It may be called concurrently. Its
// panic is an error of the attempt.
func Context(with func(ctx context.Context) context.Context) amboy.Middleware {
	return amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error { return next(with(ctx), j) }
	}}
}
