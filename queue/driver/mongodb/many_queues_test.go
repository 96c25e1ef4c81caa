package mongodb_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A claim locks a queue whose running jobs are limited. The document of the lock stayed for good.
func TestTheLockOfEachQueueThatEverHadALimitWasKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := s.open()
	for i := range 10 {
		queue := fmt.Sprint("tenant", i)
		_, err := d.Control(t.Context(), queue, driver.ControlChange{MaxRunning: new(1)})
		require.NoError(t, err)
		putAll(t, d, plainRecord("one", inQueue(queue)), plainRecord("two", inQueue(queue)))
		require.Len(t, claimAll(t, d, request("owner", 2, queue)), 1)
	}
	n, err := s.control().CountDocuments(t.Context(), bson.D{{Key: "_id", Value: primitive.Regex{Pattern: "^room/"}}})
	require.NoError(t, err)
	assert.Zero(t, n)
}

// Of each queue that it puts jobs into a process knows whether it is draining. It remembered all that do not.
func TestAProcessRememberedEachQueueThatItEverPutJobsInto(t *testing.T) {
	t.Parallel()
	d := newStore(t).open()
	for i := range 10 {
		putAll(t, d, plainRecord("job", inQueue(fmt.Sprint("tenant", i))))
	}
	assert.Zero(t, mongodb.KnownDrains(d))
}
