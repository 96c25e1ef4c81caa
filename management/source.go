package management

import (
	"context"
	"iter"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// source is where a manager finds jobs, and ends them.
type source interface {
	// find yields, page by page, the latest attempts of the jobs that are in one of
	// some states, and of a type; no states, and no type, stand for all. An error is
	// the last that it yields.
	find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error]
	// get returns the latest attempt of a job. Its error is a job not found where
	// there is none.
	get(ctx context.Context, id GroupedID) (*seen, error)
	// locate names the job with an ID in each queue that may have it.
	locate(ctx context.Context, id string) ([]GroupedID, error)
	// markComplete ends jobs for good. It gives an error for each, which wraps
	// amboy.ErrLeaseLost where the job is not as it was seen.
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

// seen is a job as its source shows it.
type seen struct {
	GroupedID
	jobType  string
	progress progress
	// stale is true where it is, or was last, under a lease that has run out.
	stale bool
	// record is what is stored of it, if anything is.
	record *driver.Record
}

// see looks at a job at a time. leaseTime is 0 where there are no leases.
func see(info amboy.JobInfo, leaseTime time.Duration, now time.Time) *seen {
	return &seen{
		GroupedID: GroupedID{ID: info.ID},
		jobType:   info.Type.Name,
		progress:  progressOf(info),
		stale:     leaseTime > 0 && now.Sub(info.Status.ModificationTime) > leaseTime,
	}
}

func progressOf(info amboy.JobInfo) progress {
	switch status := info.Status; {
	case status.InProgress:
		return running // whatever it says of itself
	case !status.Completed:
		return pending
	case info.Retry.ShouldRetry():
		return retrying
	default:
		return ended
	}
}
