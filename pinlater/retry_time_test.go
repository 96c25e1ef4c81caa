package pinlater_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

// contended is a store on which others do something between any two actions.
type contended struct {
	driver.Driver
	between func()
}

func (c *contended) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	acted, err := c.Driver.Act(ctx, req)
	if c.between != nil {
		c.between()
	}
	return acted, err
}

// A failed job that was retried ran again, and then got the time after which it was to run. A worker that asked for
// jobs in between ran it at once.
func TestARetriedJobRanBeforeItsTime(t *testing.T) {
	store := &contended{Driver: stores["memory"](t)}
	f := newFixture(t, store, pinlater.Options{})
	f.createQueue(mail)
	f.enqueue(allowing(newJob("a"), 1))
	require.Len(t, f.failAll(1), 1)
	worker, taken := f.connect(), 0
	store.between = func() {
		r := wire.NewPinLaterDequeueRequest()
		r.QueueName, r.Limit = mail, 10
		reply, err := worker.DequeueJobs(f.ctx, test, r)
		if assert.NoError(t, err) {
			taken += len(reply.Jobs)
		}
	}
	r := wire.NewPinLaterRetryFailedJobsRequest()
	r.QueueName, r.AttemptsToAllow, r.Limit = mail, 1, 10
	runAfter := time.Now().Add(time.Hour).UnixMilli()
	r.RunAfterTimestampMillis = &runAfter
	n, err := f.client.RetryFailedJobs(f.ctx, test, r)
	require.NoError(t, err)
	assert.Equal(t, int32(1), n)
	assert.Zero(t, taken)
}
