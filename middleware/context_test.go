package middleware_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
)

type testKey struct{}

func TestContextReachesJobsBesideWhatTheyHad(t *testing.T) {
	var value any
	var queue amboy.Queue
	reader := newJob("reader", func(ctx context.Context, _ *funcJob) {
		value, queue = ctx.Value(testKey{}), amboy.QueueFromContext(ctx)
	})
	runAll(t, []amboy.Middleware{middleware.Context(func(ctx context.Context) context.Context {
		return context.WithValue(ctx, testKey{}, "handle")
	})}, reader)
	assert.Equal(t, "handle", value)
	assert.NotNil(t, queue)
}

func TestPanicOfContextFunctionIsAnErrorOfTheAttempt(t *testing.T) {
	j := newJob("job", nil)
	runAll(t, []amboy.Middleware{middleware.Context(func(context.Context) context.Context { panic("no handle") })}, j)
	require.ErrorContains(t, j.Error(), "panic: no handle")
}
