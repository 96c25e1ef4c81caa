package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

// onlyAttempt returns a job that fails in its only attempt, and whose method breaks from then on.
func onlyAttempt(method string, exits bool) *overriding {
	j := newOverriding(method, whenRun, exits)
	j.Base.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: new(1)})
	return j
}

func TestNoJobWasRetriedAfterAJobEndedTheGoroutineOfTheRetryHandler(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, onlyAttempt("Lock", true))
		pass(time.Minute)
		for _, id := range ids("job", 3) {
			put(t, q, retryable(newJob(t, id, func(_ context.Context, j *funcJob) { j.AddRetryableError(errCut) }), 2))
		}
		pass(time.Hour)
		assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
	})
}

func TestAJobWhoseMethodsBreakInTheRetryHandlerWasRetriedForEver(t *testing.T) {
	for _, exits := range []bool{false, true} {
		for _, method := range append([]string{"Lock"}, overridden...) {
			t.Run(fmt.Sprintf("%s, exits %t", method, exits), func(t *testing.T) {
				onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
					put(t, q, onlyAttempt(method, exits))
					pass(time.Hour)
					assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
				})
			})
		}
	}
}
