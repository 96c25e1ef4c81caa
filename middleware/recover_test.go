package middleware_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
)

func TestRecover(t *testing.T) {
	told := map[string]*amboy.PanicError{}
	recovering := middleware.Recover(func(_ context.Context, j amboy.Job, panicked *amboy.PanicError) {
		told[j.ID()] = panicked
	})
	panicky := amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			if j.ID() == "middleware" {
				panic("in middleware")
			}
			return next(ctx, j)
		}
	}}
	inJob := newJob("job", func(context.Context, *funcJob) { panic("in job") })
	inMiddleware := newJob("middleware", nil)
	runAll(t, []amboy.Middleware{recovering, panicky},
		inJob, inMiddleware, newJob("fine", nil),
		newJob("fails", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) }),
	)
	require.Len(t, told, 2)
	assert.Equal(t, "in job", told["job"].Value)
	assert.Contains(t, string(told["job"].Stack), "recover_test.go")
	assert.Equal(t, "in middleware", told["middleware"].Value)
	require.ErrorContains(t, inJob.Error(), "panic: in job")
	require.ErrorContains(t, inMiddleware.Error(), "panic: in middleware")
}
