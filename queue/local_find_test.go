package queue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// A job with the ID of a removed job does not have the tags of that job.
func TestTagsAreForgottenWithTheirJob(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, KeepFinished: 1})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	withTag := func() int {
		n, err := q.(amboy.JobFinder).CountJobs(t.Context(), amboy.JobQuery{Tag: "red"})
		require.NoError(t, err)
		return n
	}
	tagged := noop(t, "a")
	tagged.SetTags([]string{"red"})
	put(t, q, tagged)
	drain(t, q)
	assert.Equal(t, 1, withTag())
	put(t, q, noop(t, "b"))
	drain(t, q)
	assert.Zero(t, withTag())
	put(t, q, noop(t, "a"))
	drain(t, q)
	assert.Zero(t, withTag())
}
