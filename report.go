package amboy

import (
	"context"
	"errors"
	"fmt"
)

// QueueReport lists the IDs of the jobs of a queue by their progress. Each job is in one
// list, according to its latest attempt.
type QueueReport struct {
	// Completed are the jobs that have ended and will not be retried.
	Completed []string `json:"completed"`
	// InProgress are the jobs that a worker runs.
	InProgress []string `json:"in_progress"`
	// Pending are the jobs that have not started.
	Pending []string `json:"pending"`
	// Retrying are the jobs that wait to be replaced by their next attempt.
	Retrying []string `json:"retrying"`
}

// Report lists the jobs of a queue by their progress. Each list has at most limit entries;
// a limit of zero or less means no limit. Report blocks while it reads the queue's JobInfo.
// If ctx ends before that, the report contains what was read so far. It is safe for
// concurrent use.
func Report(ctx context.Context, q Queue, limit int) QueueReport {
	report := QueueReport{Completed: []string{}, InProgress: []string{}, Pending: []string{}, Retrying: []string{}}
	var ids []string
	latest := map[string]JobInfo{} // by job ID
	for info := range q.JobInfo(ctx) {
		known, ok := latest[info.ID]
		if !ok {
			ids = append(ids, info.ID)
		}
		if !ok || info.Retry.CurrentAttempt > known.Retry.CurrentAttempt {
			latest[info.ID] = info
		}
	}
	for _, id := range ids {
		list := report.listFor(latest[id])
		if limit <= 0 || len(*list) < limit {
			*list = append(*list, id)
		}
	}
	return report
}

// listFor returns the list that a job belongs to.
func (r *QueueReport) listFor(info JobInfo) *[]string {
	switch {
	case info.Status.InProgress:
		return &r.InProgress
	case info.Status.Completed && info.Retry.ShouldRetry():
		return &r.Retrying
	case info.Status.Completed:
		return &r.Completed
	default:
		return &r.Pending
	}
}

// ResolveErrors joins the errors of the finished jobs in the queue's Results, each with the
// ID of its job. It returns nil if there are none. It blocks while it reads the results. If
// ctx ends before that, the error includes the cause. It is safe for concurrent use.
func ResolveErrors(ctx context.Context, q Queue) error {
	if q == nil {
		return errors.New("reading the results of a queue: it must not be nil")
	}
	// The stream must not outlive this call, even if a job's Error panics.
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()

	var errs []error
	for j := range q.Results(streaming) {
		if err := j.Error(); err != nil {
			errs = append(errs, fmt.Errorf("job %q: %w", j.ID(), err))
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("reading the results of queue %q: %w", q.ID(), context.Cause(ctx)))
	}
	return errors.Join(errs...)
}

// WithRetryableQueue calls use with the queue if it is a RetryableQueue, and reports
// whether it is.
func WithRetryableQueue(q Queue, use func(RetryableQueue)) bool {
	retryable, ok := q.(RetryableQueue)
	if ok {
		use(retryable)
	}
	return ok
}
