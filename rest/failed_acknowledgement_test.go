package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// failingOnce is a store that fails to read a job once.
type failingOnce struct {
	driver.Driver
	failing bool
}

func (s *failingOnce) Get(ctx context.Context, queueName, id string) (*driver.Record, error) {
	if s.failing {
		s.failing = false
		return nil, errors.New("the store has no primary")
	}
	return s.Driver.Get(ctx, queueName, id)
}

// The worker learned that its acknowledgement had failed only after the request had waited for another job. Its
// lease had run out by then, and the job ran again.
func TestAFailedAcknowledgementWasAnsweredAfterTheWaitForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.New(memory.Options{KeepFinished: 10})
		require.NoError(t, err)
		store := &failingOnce{Driver: inner}
		w := newWorkersOn(t, store)
		w.create("images", `{"type":"scale","outside":true}`)
		jobs, _ := w.lease(`,"lease":"30s"`)
		require.Len(t, jobs, 1)
		store.failing = true
		began := time.Now()
		_, answer := w.lease(fmt.Sprintf(`,"wait":"10m","acknowledge":[{"token":%q,"complete":{}}]`, jobs[0]["token"]))
		assert.Zero(t, time.Since(began))
		problem := answer["acknowledged"].([]any)[0].(map[string]any)["problem"].(map[string]any)
		assert.EqualValues(t, http.StatusInternalServerError, problem["status"])
		_, answer = w.lease(fmt.Sprintf(`,"acknowledge":[{"token":%q,"complete":{}}]`, jobs[0]["token"]))
		assert.Equal(t, []any{map[string]any{"done": true}}, answer["acknowledged"])
	})
}
