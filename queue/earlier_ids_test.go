package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// A rule for new IDs ended such a job after its first attempt.
func TestAJobWhoseIDIsNoLongerAcceptedHadNoNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.noNextAttempts = true
		j := retryable(newJob(t, "a\x00b", func(_ context.Context, j *funcJob) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 2)
		stored, err := registry.MakeJobInterchange(j, amboy.JSON)
		require.NoError(t, err)
		stored.Name = driver.RecordName("", j.ID(), stored.RetryInfo)
		errs, err := store.Insert(t.Context(), []*driver.Record{stored})
		require.NoError(t, err)
		require.NoError(t, errs[0])

		q := startEngine(t, store, 1)
		defer q.Close(ended())
		drain(t, q)
		latest := jobOf(t, q, j.ID())
		require.NoError(t, latest.Error())
		assert.Equal(t, 1, latest.RetryInfo().CurrentAttempt)
	})
}
