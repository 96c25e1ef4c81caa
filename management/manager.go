// Package management provides an operator's view of the jobs of a queue. A Manager counts
// and lists jobs, and marks complete those that should not run. An Inspector shows
// everything known about jobs, queues and processes, and performs every action on them.
package management

import "context"

// Manager administers the jobs of one queue, or of several queues that share a store.
// All methods block as long as the store takes, stop with an error when ctx ends, and
// are safe for concurrent use. If an argument is invalid they return an
// *InvalidArgumentError and change nothing. For a retryable job they act on the latest
// attempt.
//
// A job that is marked complete has ended for every process, as though it had run: it
// has failed if it has errors, and succeeded otherwise. Its scopes are released, the
// jobs that depend on it continue, its waiters wake up, and it is not retried. A
// running job loses its lease, so that the writes of its worker are refused. Its context
// ends at once if it runs in the process of the queue's manager, and otherwise when its
// lease is next renewed. A job by reference has no lease, and its context ends at once.
// Jobs that have ended stay as they are.
//
// The methods that mark several jobs complete read them in pages, and read a job again
// if it changed meanwhile. They may include jobs that are put during the call. A call
// that fails may have completed some of the jobs, and can be repeated.
type Manager interface {
	// JobStatus counts the jobs that a filter selects, for each type and group, ordered
	// by type and group.
	JobStatus(ctx context.Context, filter StatusFilter) ([]JobTypeCount, error)
	// JobIDsByState returns the IDs of the jobs of a type that a filter selects, in
	// the order in which they were put.
	JobIDsByState(ctx context.Context, jobType string, filter StatusFilter) ([]GroupedID, error)

	// CompleteJob marks a job complete. A manager of several queues completes the job
	// with this ID in each queue that contains one. It returns an error for which
	// amboy.IsJobNotFoundError is true if no such job exists.
	CompleteJob(ctx context.Context, id string) error
	// CompleteJobs marks all jobs complete that a filter selects.
	CompleteJobs(ctx context.Context, filter StatusFilter) error
	// CompleteJobsByType is like CompleteJobs, limited to jobs of a type.
	CompleteJobsByType(ctx context.Context, filter StatusFilter, jobType string) error
	// CompleteJobsByPattern is like CompleteJobs, limited to jobs whose whole ID matches
	// a regular expression in the syntax of package regexp: job-1 does not match the ID
	// job-10. Matching takes time linear in the length of the ID. The pattern has at most
	// MaxPatternLength bytes.
	CompleteJobsByPattern(ctx context.Context, filter StatusFilter, pattern string) error
}

// JobTypeCount counts the jobs of a type.
type JobTypeCount struct {
	Type string
	// Group is the name of the queue if it shares a store with others.
	Group string
	Count int
}

// GroupedID identifies a job.
type GroupedID struct {
	ID string `bson:"_id" bson:"_id" yaml:"_id"` //nolint:staticcheck // The contract has the tag twice.
	// Group is the name of the queue if it shares a store with others.
	Group string `bson:"group,omitempty" json:"group,omitempty" yaml:"group,omitempty"`
}
