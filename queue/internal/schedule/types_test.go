package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

func countTypes(s *schedule.Schedule[int]) []driver.TypeCount {
	counts := schedule.TypeCounts{}
	s.CountTypes("q", counts)
	return counts.Sorted()
}

func TestTypesAreCountedFromAddToRemove(t *testing.T) {
	s := &schedule.Schedule[int]{KeepFinished: 1}
	now := time.Now()
	first, second := &schedule.Entry[int]{ID: "1", Type: unique.Make("a")}, &schedule.Entry[int]{ID: "2", Type: unique.Make("b"), WaitUntil: now.Add(time.Hour)}
	require.NoError(t, s.Add(first, now))
	require.NoError(t, s.Add(second, now))
	assert.Equal(t, []driver.TypeCount{{Queue: "q", Type: "a", Ready: 1}, {Queue: "q", Type: "b", Scheduled: 1}}, countTypes(s))
	s.SetType(second, "a")
	assert.Equal(t, []driver.TypeCount{{Queue: "q", Type: "a", Ready: 1, Scheduled: 1}}, countTypes(s))
	require.Same(t, first, s.Next())
	s.Retry(first)
	assert.Equal(t, []driver.TypeCount{{Queue: "q", Type: "a", Retrying: 1, Scheduled: 1}}, countTypes(s))
	next := &schedule.Entry[int]{ID: "1", Type: unique.Make("c")}
	require.NoError(t, s.Replace(first, next, now))
	assert.Equal(t, []driver.TypeCount{{Queue: "q", Type: "a", Scheduled: 1}, {Queue: "q", Type: "c", Ready: 1}}, countTypes(s))
	preset := &schedule.Entry[int]{ID: "3", Type: unique.Make("d")}
	require.NoError(t, s.AddAt(schedule.Running, preset, false, now))
	for _, e := range []*schedule.Entry[int]{second, next, preset} {
		s.Finish(e, true, now)
	}
	assert.Empty(t, countTypes(s))
}

func TestOldestReadyDoesNotExamineManyEntries(t *testing.T) {
	s := &schedule.Schedule[int]{KeepFinished: 1}
	now := time.Now()
	var all []*schedule.Entry[int]
	for n := range 5000 {
		e := &schedule.Entry[int]{ID: fmt.Sprint(n)}
		if n < 4000 && n != 1000 {
			e.WaitUntil = now.Add(time.Hour)
		}
		require.NoError(t, s.Add(e, now))
		all = append(all, e)
	}
	examined := 0
	arrived := func(yield func(*schedule.Entry[int]) bool) {
		for e := range slices.Values(all) {
			examined++
			if !yield(e) {
				return
			}
		}
	}
	assert.Same(t, all[1000], s.OldestReady(arrived))
	require.Same(t, all[1000], s.Next())
	examined = 0
	assert.Same(t, all[4000], s.OldestReady(arrived), "the one that runs next")
	assert.Equal(t, 2000, examined)
	for s.Next() != nil { //nolint:revive // It takes all.
	}
	assert.Nil(t, s.OldestReady(arrived))
}

// If it had examined as many as it may that were added in the order of their times, it examined all others, under the
// lock of the queue.
func TestOldestDueExaminedAllEntriesOfALargeSchedule(t *testing.T) {
	s := &schedule.Schedule[int]{KeepFinished: 1}
	now := time.Now()
	postpone := func(n int) {
		for range n {
			e := &schedule.Entry[int]{ID: fmt.Sprint(s.Len())}
			require.NoError(t, s.Add(e, now))
			require.Same(t, e, s.Next())
			s.Release(e, now.Add(time.Minute), now)
		}
	}
	add := func(id string, in time.Duration) {
		require.NoError(t, s.Add(&schedule.Entry[int]{ID: id, WaitUntil: now.Add(in)}, now))
	}
	postpone(3000)
	add("late", time.Hour) // so that the others are not in order
	postpone(3000)
	add("due", 2*time.Minute)
	assert.Nil(t, s.OldestDue(now.Add(3*time.Minute)), "it is behind many others")
}
