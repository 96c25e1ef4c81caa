package queue_test

import (
	"fmt"
	"testing"
	"time"

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

// All calls waited while the jobs of a large queue were described, for seconds if there were a million.
func TestAListOfAllJobsKeptOtherCallsWaiting(t *testing.T) {
	const rounds, most = 10, 0.5
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
	require.NoError(t, err)
	defer q.Close(t.Context())
	jobs := make([]amboy.Job, 50_000)
	for i := range jobs {
		j := newFuncJob()
		j.SetID(fmt.Sprint(i))
		jobs[i] = j
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	waited := 1.0 // the longest call beside a list, as a part of the time of that, in the best round
	for round := 0; round < rounds && waited >= most; round++ {
		listed, longest := make(chan time.Duration), time.Duration(0)
		go func() {
			begin := time.Now()
			q.JobInfo(ended())
			listed <- time.Since(begin)
		}()
		for whole := time.Duration(0); whole == 0; {
			begin := time.Now()
			q.Stats(t.Context())
			longest = max(longest, time.Since(begin))
			select {
			case whole = <-listed:
				waited = min(waited, longest.Seconds()/whole.Seconds())
			default:
			}
		}
	}
	assert.Less(t, waited, most)
}
