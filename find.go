package amboy

import (
	"context"
	"iter"
)

// JobQuery selects jobs by their current properties. Empty fields match everything;
// non-empty fields are ANDed.
type JobQuery struct {
	// States lists the states to match.
	States []JobState
	// Types lists the names of the job types to match.
	Types []string
	// Tag is a tag that the job must have (see TaggedJob).
	Tag string
}

// JobFinder is implemented by queues that can find jobs by more than their ID. For a
// retryable job they use its latest attempt. The methods are safe for concurrent use.
type JobFinder interface {
	// FindJobs yields a description of each matching job, in the order in which the
	// jobs were put; a retry counts as a new put. It reads the store while it yields,
	// so jobs may change meanwhile. A job that exists and matches from start to end is
	// yielded at least once. After an error FindJobs yields nothing more.
	FindJobs(ctx context.Context, q JobQuery) iter.Seq2[JobInfo, error]
	// CountJobs counts the matching jobs. It blocks for the calls to the store, and
	// returns its errors.
	CountJobs(ctx context.Context, q JobQuery) (int, error)
}
