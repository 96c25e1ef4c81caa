package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// unlimited is a driver without limits.
type unlimited struct{ driver.Driver }

func (d unlimited) Features() driver.Features {
	features := d.Driver.Features()
	features.Limits = false
	return features
}

func TestPutRefusesALimitThatTheStoreDoesNotHave(t *testing.T) {
	d := job.Define("limited-put", 1, func(context.Context, string) error { return nil })
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: unlimited{store}, NumWorkers: 1})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	_, err = d.Put(t.Context(), q, "", job.ID("job"), job.Limit("k", 2))
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, amboy.InvalidJobError{JobID: "job", Field: "scope", Value: "k (at most 2)", Rule: "must not be limited: the store of the queue has no limits"}, *invalid)
	_, err = d.Put(t.Context(), q, "", job.Scopes("k"))
	require.NoError(t, err)
}
