package queue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// A long list is sent by a goroutine of the queue.
func TestAPanicOfAJobThatWasListedEndedTheProcess(t *testing.T) {
	q := startLocal(t)
	require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
	for _, id := range ids("job", 600) {
		put(t, q, noop(t, id))
	}
	j := newBrittle(t, "")
	put(t, q, j)
	j.breaks.Store("Status")
	n := 0
	for range q.JobInfo(within(t)) {
		n++
	}
	assert.Equal(t, 600, n)
}
