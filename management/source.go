package management

import (
	"context"
	"iter"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// source is what a manager uses to find jobs and to end them.
type source interface {
	// find yields, page by page, the latest attempts of the jobs in the given states and
	// of the given type. No states, or no type, stand for all. After an error it yields
	// nothing more.
	find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error]
	// get returns the latest attempt of a job, or a job-not-found error.
	get(ctx context.Context, id GroupedID) (*seen, error)
	// locate returns the references under which a job with this ID may exist.
	locate(ctx context.Context, id string) ([]GroupedID, error)
	// markComplete ends jobs for good. It returns an error for each job, which wraps
	// amboy.ErrLeaseLost if the job changed since it was read.
	markComplete(ctx context.Context, jobs []*seen) []error
}

// progress is how far a job has come.
type progress int

const (
	pending progress = iota
	running
	retrying
	ended
)

// seen is a job as it was when it was read.
type seen struct {
	GroupedID
	jobType  string
	progress progress
	// stale is true if the job runs, or ran last, under a lease that has expired.
	stale bool
	// record is the stored record; nil if the source has none.
	record *driver.Record
}

// see describes a job at a given time. leaseTime is 0 if there are no leases.
func see(info amboy.JobInfo, leaseTime time.Duration, now time.Time) *seen {
	return &seen{
		GroupedID: GroupedID{ID: info.ID},
		jobType:   info.Type.Name,
		progress:  progressOf(info),
		stale:     isStale(info.Status, leaseTime, now),
	}
}

func progressOf(info amboy.JobInfo) progress {
	switch status := info.Status; {
	case status.InProgress:
		return running // whatever its other fields are
	case !status.Completed:
		return pending
	case info.Retry.ShouldRetry():
		return retrying
	default:
		return ended
	}
}
