package middleware_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

// outcomes returns middleware that records how attempts end.
func outcomes(seen *[]middleware.Outcome) amboy.Middleware {
	return amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			err := next(ctx, j)
			*seen = append(*seen, middleware.OutcomeOf(ctx, j, err))
			return err
		}
	}}
}

func TestOutcomeOf(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(context.Context, *funcJob)
		want []middleware.Outcome
	}{
		"succeeded":     {nil, []middleware.Outcome{middleware.Succeeded}},
		"failed":        {func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) }, []middleware.Outcome{middleware.Failed}},
		"retried":       {func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }, []middleware.Outcome{middleware.Retrying, middleware.Failed}},
		"not retryable": {func(_ context.Context, j *funcJob) { j.AddRetryableError(amboy.NonRetryable(errors.New("no"))) }, []middleware.Outcome{middleware.Failed}},
		"canceled":      {func(_ context.Context, j *funcJob) { j.AddError(&amboy.CancelError{}) }, []middleware.Outcome{middleware.Canceled}},
		"snoozed": {func(_ context.Context, j *funcJob) {
			if j.Status().ModificationCount == 1 {
				j.Snooze(time.Now())
			}
		}, []middleware.Outcome{middleware.Snoozed, middleware.Succeeded}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []middleware.Outcome
			runAll(t, []amboy.Middleware{outcomes(&seen)}, newJob("j", test.run))
			assert.Equal(t, test.want, seen)
		})
	}
}

func TestOutcomeOfAnInterruptedAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		interrupt func(*testing.T, amboy.Queue)
		want      middleware.Outcome
	}{
		"aborted": {func(t *testing.T, q amboy.Queue) {
			require.NoError(t, q.Runner().(amboy.AbortableRunner).Abort(t.Context(), "j"))
		}, middleware.Canceled},
		"stopped": {func(t *testing.T, q amboy.Queue) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			q.Close(ctx)
		}, middleware.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []middleware.Outcome
			q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Middleware: []amboy.Middleware{outcomes(&seen)}})
			require.NoError(t, err)
			require.NoError(t, q.SetRunner(pool.NewAbortablePool(1, q)))
			require.NoError(t, q.Start(t.Context()))
			defer q.Close(context.Background())
			running := make(chan struct{})
			require.NoError(t, q.Put(t.Context(), newJob("j", func(ctx context.Context, _ *funcJob) {
				close(running)
				<-ctx.Done()
			})))
			<-running
			test.interrupt(t, q)
			assert.Equal(t, []middleware.Outcome{test.want}, seen)
		})
	}
}
