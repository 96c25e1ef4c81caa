package cli_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// large is a service whose store is so large that a count ends before it has found a job.
type large struct{ *fake }

func (large) CountJobs(context.Context, management.JobFilter, int) (management.Count, error) {
	return management.Count{More: true}, nil
}

func (large) CountStates(context.Context, management.StateCountRequest) ([]management.StateCount, error) {
	return []management.StateCount{{State: amboy.StateFailed, Count: management.Count{More: true}}}, nil
}

// The command said that more than 0 jobs are selected, and its exit code that none is. Neither is known.
func TestACountThatEndedEarlySaidThatThereIsNoJob(t *testing.T) {
	for _, args := range [][]string{nil, {"--by-state"}} {
		args = append([]string{"jobs", "count", "--state", "failed"}, args...)
		got := run(t, large{newFake()}, args...)
		assert.Equal(t, 0, got.code)
		assert.Contains(t, got.out, "at least 0\n")
		got = run(t, large{newFake()}, append(args, "--strict")...)
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.out, "at least 0\n")
		assert.Equal(t, "amboy: counting jobs: the time was over before a job was found\n", got.errOut)
	}
}

// timed is a service whose counts end in the middle.
type timed struct{ *fake }

func (timed) CountJobs(context.Context, management.JobFilter, int) (management.Count, error) {
	return management.Count{Count: 7, More: true}, nil
}

// A count whose time is over has counted a part of the jobs, or all of them.
func TestACountThatEndedEarlySaidThatThereAreMoreJobs(t *testing.T) {
	got := run(t, timed{newFake()}, "jobs", "count", "--state", "failed")
	assert.Equal(t, 0, got.code)
	assert.Equal(t, "at least 7\n", got.out)
}
