package amboy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// The effect of middleware on jobs in queues is tested in internal/suite.

func TestChainsWithoutMiddlewareAreNil(t *testing.T) {
	run, err := amboy.ChainRun(amboy.Middleware{}, amboy.Middleware{Put: func(next amboy.PutFunc) amboy.PutFunc { return next }})
	require.NoError(t, err)
	assert.Nil(t, run)
	put, err := amboy.ChainPut(nil, amboy.Middleware{}, amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc { return next }})
	require.NoError(t, err)
	assert.Nil(t, put)
}

func TestChainsRefuseBadMiddleware(t *testing.T) {
	fine := amboy.Middleware{
		Run: func(next amboy.RunFunc) amboy.RunFunc { return next },
		Put: func(next amboy.PutFunc) amboy.PutFunc { return next },
	}
	for name, test := range map[string]struct {
		middleware amboy.Middleware
		want       string
	}{
		"nil": {amboy.Middleware{
			Run: func(amboy.RunFunc) amboy.RunFunc { return nil },
			Put: func(amboy.PutFunc) amboy.PutFunc { return nil },
		}, "middleware 2 of 3 for its %s: it must not be nil"},
		"panic": {amboy.Middleware{
			Run: func(amboy.RunFunc) amboy.RunFunc { panic("no") },
			Put: func(amboy.PutFunc) amboy.PutFunc { panic("no") },
		}, "middleware 2 of 3 for its %s: panic: no"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := amboy.ChainRun(fine, test.middleware, fine)
			require.ErrorContains(t, err, "asking middleware 2 of 3 for its RunFunc")
			_, err = amboy.ChainPut(func(context.Context, []amboy.Job) error { return nil }, fine, test.middleware, fine)
			require.ErrorContains(t, err, "asking middleware 2 of 3 for its PutFunc")
		})
	}
}

// plainQueue implements no optional interface.
type plainQueue struct{ amboy.Queue }

func (plainQueue) ID() string { return "plain" }

func TestAQueueWithoutMiddlewareAndEvents(t *testing.T) {
	q := plainQueue{}
	require.ErrorContains(t, amboy.Use(q), `queue "plain"`)
	_, _, err := amboy.Subscribe(q, 1)
	require.ErrorContains(t, err, `queue "plain"`)
	j := newJob("j")
	require.NoError(t, amboy.RunFuncOf(q)(t.Context(), j))
}

func TestRunAttemptOfASnoozedJob(t *testing.T) {
	until := time.Now().Add(time.Hour)
	j := newJob("j")
	j.run = func(_ context.Context, j *testJob) { j.Snooze(until) }
	var snooze *amboy.SnoozeError
	require.ErrorAs(t, amboy.RunAttempt(t.Context(), j), &snooze)
	assert.True(t, until.Equal(snooze.Until))
	assert.True(t, until.Equal(amboy.SnoozedUntil(j)))
	j.AddError(errors.New("no"))
	assert.Zero(t, amboy.SnoozedUntil(j), "a job that failed is not snoozed")
}
