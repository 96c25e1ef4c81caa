package jobstate

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// recheckJobs simulates jobs that were put at once and stay blocked. It returns when each
// was checked, counted from the beginning.
func recheckJobs(jobs int, until time.Duration) (asked [][]time.Duration) {
	var r Rechecks
	began := time.Date(2026, time.January, 2, 3, 4, 5, 678, time.UTC)
	asked = make([][]time.Duration, jobs)
	due := make(map[time.Duration][]int)
	all := make([]int, jobs)
	for i := range all {
		all[i] = i
	}
	due[0] = all
	for len(due) > 0 {
		next := until
		for at := range due {
			next = min(next, at)
		}
		if next == until {
			break
		}
		for _, job := range due[next] {
			asked[job] = append(asked[job], next)
			at := r.Next(began.Add(next), began).Sub(began)
			due[at] = append(due[at], job)
		}
		delete(due, next)
	}
	return asked
}

func TestManyBlockedJobsAreCheckedRarely(t *testing.T) {
	const jobs, until = 20_000, 5 * time.Minute
	bySecond := make([]int, until/time.Second)
	var longest, last time.Duration // between two checks of a job, and after its last one
	for _, times := range recheckJobs(jobs, until) {
		for i, at := range times {
			bySecond[at/time.Second]++
			if i > 0 {
				longest = max(longest, at-times[i-1])
			}
		}
		last = max(last, until-times[len(times)-1])
	}
	assert.LessOrEqual(t, longest, 55*time.Second)
	assert.Less(t, last, 55*time.Second)
	assert.LessOrEqual(t, slices.Max(bySecond[1:]), 600)
}

func TestFewBlockedJobsAreCheckedOften(t *testing.T) {
	for _, times := range recheckJobs(100, time.Minute) {
		assert.LessOrEqual(t, times[1], 250*time.Millisecond)
		for i := range times[1:] {
			assert.LessOrEqual(t, times[i+1]-times[i], 5*time.Second)
		}
	}
}

func TestRechecksGoOnAfterTheClockWasSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		var r Rechecks
		now := time.Unix(1_000_000, 0)
		for range 10_000 {
			r.Next(now, now)
		}
		now = now.Add(by)
		assert.Equal(t, now.Add(firstRecheck), r.Next(now, now))
	}
}
