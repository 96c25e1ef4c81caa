package middleware_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
)

// The queue adds an error of middleware to the job after all middleware has returned.
func TestAnErrorOfMiddlewareSeemedToBeTheLast(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("too many") },
		"panic": func() error { panic("too many") },
	} {
		t.Run(name, func(t *testing.T) {
			var seen []middleware.Outcome
			failing := amboy.Middleware{Run: func(amboy.RunFunc) amboy.RunFunc {
				return func(context.Context, amboy.Job) error { return fail() }
			}}
			ignore := func(context.Context, amboy.Job, *amboy.PanicError) {}
			runAll(t, []amboy.Middleware{outcomes(&seen), middleware.Recover(ignore), failing}, newJob("j", nil))
			assert.Equal(t, []middleware.Outcome{middleware.Retrying, middleware.Failed}, seen)
		})
	}
}

func TestAnErrorOfMiddlewareThatIsNotRetryable(t *testing.T) {
	var seen []middleware.Outcome
	failing := amboy.Middleware{Run: func(amboy.RunFunc) amboy.RunFunc {
		return func(context.Context, amboy.Job) error { return amboy.NonRetryable(errors.New("never")) }
	}}
	runAll(t, []amboy.Middleware{outcomes(&seen), failing}, newJob("j", nil))
	assert.Equal(t, []middleware.Outcome{middleware.Failed}, seen)
}
