package queue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// later schedules a job for a time that no test reaches.
func later(j *labeled) *labeled {
	j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(1000 * time.Hour)})
	return j
}

// requireKeyRefused requires an error for a unique key "key" that job "one" holds.
func requireKeyRefused(t *testing.T, err error) {
	t.Helper()
	require.True(t, amboy.IsDuplicateJobError(err), "%v", err)
	require.False(t, amboy.IsDuplicateJobScopeError(err))
	require.ErrorContains(t, err, `is held by job "one"`)
}

// hasKey reports whether job "one" has its key: it tries to put another job with the key,
// and ends that job at once.
func hasKey(t *testing.T, q amboy.Queue) bool {
	t.Helper()
	rival := later(newLabeled(fmt.Sprint("rival-", lastKey.Add(1)), "key", ""))
	err := q.Put(within(t), rival)
	if err != nil {
		requireKeyRefused(t, err)
		return true
	}
	require.NoError(t, q.Complete(within(t), rival))
	return false
}

func TestEachQueueKeepsAUniqueKeyUntil(t *testing.T) {
	const keepFinished = 8
	for _, test := range []struct {
		until          amboy.UniqueUntil
		fails          bool
		running, ended bool // whether the job has its key at that stage
	}{
		{until: "", running: true},
		{until: amboy.UniqueUntilEnded, running: true},
		{until: amboy.UniqueUntilEnded, fails: true, running: true},
		{until: amboy.UniqueUntilStarted},
		{until: amboy.UniqueUntilFailed, running: true, ended: true},
		{until: amboy.UniqueUntilFailed, fails: true, running: true},
		{until: amboy.UniqueUntilForgotten, running: true, ended: true},
		{until: amboy.UniqueUntilForgotten, fails: true, running: true, ended: true},
	} {
		t.Run(fmt.Sprintf("%q, fails %t", test.until, test.fails), func(t *testing.T) {
			onEachFaked(t, keepFinished, func(t *testing.T, q amboy.Queue) {
				j := newLabeled("one", "key", test.until)
				j.Lasts, j.Fails = time.Minute, test.fails
				j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Minute)})
				put(t, q, j)
				assert.True(t, hasKey(t, q), "while it waits")
				pass(90 * time.Second)
				require.Equal(t, 1, q.Stats(t.Context()).Running)
				assert.Equal(t, test.running, hasKey(t, q), "while it runs")
				pass(time.Minute)
				require.True(t, infoOf(t, q, "one").State.IsFinal())
				assert.Equal(t, test.ended, hasKey(t, q), "when it has ended")
				for _, id := range ids("", keepFinished) {
					put(t, q, noop(t, id))
					drain(t, q)
				}
				assert.False(t, hasKey(t, q), "when it is removed")
			})
		})
	}
}

// The job expires while it waits.
func TestUniqueKeyOfAJobThatNeverRan(t *testing.T) {
	for _, until := range []amboy.UniqueUntil{"", amboy.UniqueUntilEnded, amboy.UniqueUntilStarted} {
		t.Run(fmt.Sprintf("%q", until), func(t *testing.T) {
			onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
				expires := newLabeled("one", "key", until)
				expires.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
				require.NoError(t, controlled(t, q).Pause(t.Context()))
				put(t, q, expires)
				assert.True(t, hasKey(t, q))
				pass(2 * time.Minute)
				assert.Equal(t, amboy.StateExpired, infoOf(t, q, "one").State)
				assert.False(t, hasKey(t, q))
			})
		})
	}
}

func TestUniqueJobIsRefused(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, later(newLabeled("one", "key", "")))
		second := newLabeled("two", "key", amboy.UniqueUntilStarted)
		err := q.Put(t.Context(), second)
		requireKeyRefused(t, err)
		require.ErrorContains(t, err, `putting job "two"`)
		require.NoError(t, amboy.EnqueueUniqueJob(t.Context(), q, second), "the job exists already")
		_, ok := q.Get(t.Context(), "two")
		assert.False(t, ok)
		assert.Equal(t, 1, q.Stats(t.Context()).Total)

		// An empty key is no key, and an ID is not a key.
		put(t, q, newLabeled("three", "", ""), newLabeled("four", "", ""), newLabeled("key", "one", ""))
	})
}

func TestPutManyRefusesUniqueJobs(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		err := q.PutMany(t.Context(), []amboy.Job{
			later(newLabeled("one", "key", "")), newLabeled("two", "key", ""), newLabeled("three", "other", ""), noop(t, "four"),
		})
		requireKeyRefused(t, err)
		_, ok := q.Get(t.Context(), "two")
		assert.False(t, ok)
		assert.Equal(t, 3, q.Stats(t.Context()).Total)
	})
}

// TestRefusedJobTakesNoKey refuses a job for a reason other than its key.
func TestRefusedJobTakesNoKey(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, later(newLabeled("there", "", "")))
		require.True(t, amboy.IsDuplicateJobError(q.Put(t.Context(), newLabeled("there", "key", ""))))
		assert.False(t, hasKey(t, q))
		require.NoError(t, controlled(t, q).Drain(t.Context()))
		require.ErrorIs(t, q.Put(t.Context(), newLabeled("late", "key", "")), amboy.ErrQueueDraining)
		require.NoError(t, controlled(t, q).Resume(t.Context()))
		assert.False(t, hasKey(t, q))
	})
}

func TestInvalidUniqueUntilIsRefused(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		err := q.Put(t.Context(), newLabeled("one", "key", "tomorrow"))
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, err, &invalid)
		assert.Equal(t, &amboy.InvalidJobError{
			JobID: "one",
			Field: "unique until",
			Value: amboy.UniqueUntil("tomorrow"),
			Rule:  "must be one of the amboy.UniqueUntil values",
		}, invalid)
		assert.Zero(t, q.Stats(t.Context()).Total)
		assert.False(t, hasKey(t, q))
		put(t, q, newLabeled("two", "", "tomorrow")) // without a key, "until" is not checked
	})
}

// TestUniqueJobInAFullQueue checks that a job with a free key waits for room, and that a
// job with a taken key is refused at once.
func TestUniqueJobInAFullQueue(t *testing.T) {
	onEachFaked(t, 1, func(t *testing.T, q amboy.Queue) {
		running := newLabeled("one", "key", "")
		running.Lasts = time.Hour
		put(t, q, running)
		synctest.Wait()
		put(t, q, noop(t, "waiting"))
		requireKeyRefused(t, q.Put(t.Context(), newLabeled("two", "key", "")))

		refusals := make(chan error, 2)
		for _, id := range []string{"first", "second"} {
			j := newLabeled(id, "other", amboy.UniqueUntilForgotten)
			go func() { refusals <- q.Put(t.Context(), j) }()
			synctest.Wait()
		}
		assert.Empty(t, refusals, "both jobs wait for room")
		pass(2 * time.Hour)
		accepted, err := <-refusals, <-refusals
		if accepted != nil {
			accepted, err = err, accepted // the refused Put returned first
		}
		require.NoError(t, accepted)
		require.True(t, amboy.IsDuplicateJobError(err), "%v", err)
		require.ErrorContains(t, err, `putting job "second": unique key "other" of job "second" is held by job "first"`)
		drain(t, q)
	})
}

func TestOneOfManyConcurrentPutsGetsTheKey(t *testing.T) {
	const rounds, rivals = 20, 4
	onEach(t, 2, rounds*rivals, func(t *testing.T, q amboy.Queue) {
		var others sync.WaitGroup
		var added [rounds]atomic.Int64
		for i := range rivals {
			others.Go(func() {
				for round := range rounds {
					j := newLabeled(fmt.Sprintf("%d-%d", round, i), fmt.Sprint(round), amboy.UniqueUntilForgotten)
					if err := q.Put(within(t), j); err == nil {
						added[round].Add(1)
					} else {
						assert.True(t, amboy.IsDuplicateJobError(err), "%v", err)
					}
				}
			})
		}
		others.Wait()
		for round := range added {
			assert.Equal(t, int64(1), added[round].Load(), "round %d", round)
		}
		drain(t, q)
		assert.Equal(t, rounds, q.Stats(t.Context()).Completed)
	})
}
