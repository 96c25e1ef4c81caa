// Package management is for people who look after the jobs of a queue. A Manager counts
// them, lists them, and marks complete what is not to run any more. An Inspector shows all
// that is known of them, and does to them whatever a person may want to.
package management

import "context"

// Manager looks after the jobs of one queue, or of several that share a store. All
// methods block as long as the store takes, stop with an error when ctx ends, and
// are safe for concurrent use. They return an *InvalidArgumentError for arguments
// that are not valid, and change nothing then. Of a retryable job the latest attempt
// is meant.
//
// A job that is marked complete is complete for everybody: as though it had run, it
// has failed where it has errors, and else succeeded. Its scopes are free, the jobs
// that depend on it go on, those who wait for it wake up, and it is not retried. A
// job that runs loses its lease, so that what its worker writes is refused; its
// context ends, at once where it runs in the process of a queue manager, and else
// when its lease is next renewed. A job by reference has no lease, and its context ends
// at once. Jobs that have ended stay as they are.
//
// The methods that mark several jobs complete read them in pages and look at each
// again where it changed meanwhile. Jobs that are put meanwhile may be among them. A
// call that fails has completed some, and may be repeated.
type Manager interface {
	// JobStatus counts the jobs that a filter selects by their type, ordered by
	// type and group.
	JobStatus(ctx context.Context, filter StatusFilter) ([]JobTypeCount, error)
	// JobIDsByState returns the IDs of the jobs of a type that a filter selects, in
	// the order in which they were put.
	JobIDsByState(ctx context.Context, jobType string, filter StatusFilter) ([]GroupedID, error)

	// CompleteJob marks a job complete; where the manager looks after several
	// queues, in each of them that has it. It returns an error for which
	// amboy.IsJobNotFoundError is true where there is none.
	CompleteJob(ctx context.Context, id string) error
	// CompleteJobs marks the jobs complete that a filter selects.
	CompleteJobs(ctx context.Context, filter StatusFilter) error
	// CompleteJobsByType does so with those of a type.
	CompleteJobsByType(ctx context.Context, filter StatusFilter, jobType string) error
	// CompleteJobsByPattern does so with those whose whole ID matches a regular
	// expression in the syntax of package regexp: job-1 is no match for the ID
	// job-10. Matching takes time that is linear in the length of the ID. The
	// pattern has at most MaxPatternLength bytes.
	CompleteJobsByPattern(ctx context.Context, filter StatusFilter, pattern string) error
}

// JobTypeCount counts the jobs of a type.
type JobTypeCount struct {
	Type string
	// Group is the queue, where it is one of several in a store.
	Group string
	Count int
}

// GroupedID names a job.
type GroupedID struct {
	ID string `bson:"_id" bson:"_id" yaml:"_id"` //nolint:staticcheck // The contract has the tag twice.
	// Group is the queue, where it is one of several in a store.
	Group string `bson:"group,omitempty" json:"group,omitempty" yaml:"group,omitempty"`
}
