package middleware

import (
	"context"
	"errors"

	"github.com/mongodb/amboy"
)

// Outcome is how an attempt of a job ended, as middleware sees it. The queue may decide
// differently: for instance, if it lost the job's lease, the job runs elsewhere.
type Outcome string

// The outcomes.
const (
	// Succeeded: the attempt had no error.
	Succeeded Outcome = "succeeded"
	// Failed: the attempt had an error, and no other attempt follows.
	Failed Outcome = "failed"
	// Retrying: the attempt had an error, and another attempt follows.
	Retrying Outcome = "retrying"
	// Canceled: the job canceled itself or was aborted.
	Canceled Outcome = "canceled"
	// Snoozed: the job asked to run again later.
	Snoozed Outcome = "snoozed"
	// Interrupted: the context of the attempt ended first, because the job's lease was
	// lost or its runner stopped. The job runs again.
	Interrupted Outcome = "interrupted"
)

// OutcomeOf returns how an attempt ended that ran under ctx and whose RunFunc returned
// err.
func OutcomeOf(ctx context.Context, j amboy.Job, err error) Outcome {
	var snoozed *amboy.SnoozeError
	var canceled *amboy.CancelError
	switch {
	case errors.Is(context.Cause(ctx), amboy.ErrAborted) || errors.As(err, &canceled):
		return Canceled
	case errors.As(err, &snoozed):
		return Snoozed
	case ctx.Err() != nil:
		return Interrupted
	case err == nil:
		return Succeeded
	case mayRetry(j, err):
		return Retrying
	default:
		return Failed
	}
}

func mayRetry(j amboy.Job, err error) bool {
	retry := j.RetryInfo()
	// An error of middleware is added to the job, and asks for a retry, only after all
	// middleware has returned.
	asks := retry.NeedsRetry || j.Error() == nil
	return retry.Retryable && asks && retry.GetRemainingAttempts() > 0 && !amboy.IsNonRetryable(err)
}
