package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// It ended although it had attempts left, if its retry handler made the next attempt.
func TestAJobWhoseRunLeftItInAStateThatCanNotBeStoredWasNotRetried(t *testing.T) {
	for _, byHandler := range []bool{false, true} {
		t.Run(fmt.Sprintf("by its handler %t", byHandler), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.noNextAttempts = byHandler
				q := startEngine(t, store, 1)
				defer q.Close(ended())
				put(t, q, retryable(newJob(t, "a", func(_ context.Context, j *funcJob) {
					if j.RetryInfo().CurrentAttempt == 0 {
						j.SetMetadata("k\x00", "v")
						j.AddRetryableError(errors.New("once more"))
					}
				}), 2))
				drain(t, q)
				latest := jobOf(t, q, "a")
				require.NoError(t, latest.Error())
				assert.Equal(t, 1, latest.RetryInfo().CurrentAttempt)
				assert.Len(t, latest.Status().Attempts, 2, "the error of the run, and that its state can't be stored")
			})
		})
	}
}
