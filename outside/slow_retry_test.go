package outside_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// slowRetries is a store that ends an attempt and makes the next one in two calls, as MongoDB's does.
// The second call, and reads of attempts, get no answer.
type slowRetries struct{ driver.Driver }

func (s slowRetries) Features() driver.Features {
	has := s.Driver.Features()
	has.NextAttempts = false
	return has
}

func (s slowRetries) Retry(ctx context.Context, _, _ *driver.Record) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s slowRetries) Attempts(ctx context.Context, _, _ string) ([]*driver.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The failure of an attempt was stored, but the call waited until the next attempt was made.
func TestAFailureWasAnsweredLongAfterItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowRetries{stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		f.put("a", `1`, job.MaxAttempts(3))
		j := f.leaseOne()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		ack := outside.Ack{Token: j.Token, Fail: &outside.Fail{Error: "busy"}}
		require.NoError(t, f.dispatcher.Acknowledge(ctx, ack)[0])
		assert.Equal(t, time.Second, time.Since(began))
		f.hasState("a", amboy.StateRetrying)
		f.close()
	})
}
