package amboy

import (
	"context"
	"iter"
)

// JobQuery selects jobs by what they are now. A field that is empty selects all;
// fields that are not select what meets all of them.
type JobQuery struct {
	// States are those that the job may be in.
	States []JobState
	// Types are the names of those that it may have.
	Types []string
	// Tag is one that it has (see TaggedJob).
	Tag string
}

// JobFinder is implemented by queues in which jobs can be found by more than their
// ID. Of a retryable job the latest attempt is meant. The methods are safe for
// concurrent use.
type JobFinder interface {
	// FindJobs yields a description of each job that a query selects, in the order
	// in which they were put; a retry counts as put anew. It reads the store as it
	// goes, so that jobs may change meanwhile; one that is there from the first to
	// the last, and is always selected, is yielded once at least. An error is the
	// last that it yields.
	FindJobs(ctx context.Context, q JobQuery) iter.Seq2[JobInfo, error]
	// CountJobs counts the jobs that a query selects. It blocks as long as the
	// store takes, and returns its errors.
	CountJobs(ctx context.Context, q JobQuery) (int, error)
}
