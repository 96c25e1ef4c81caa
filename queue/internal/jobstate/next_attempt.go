package jobstate

import (
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// NextAttempt returns the next attempt of a job, as it is put at now. It is a copy made
// through the job's stored form.
func NextAttempt(j amboy.Job, f amboy.Format, policy amboy.RetryPolicy, now time.Time) (amboy.Job, error) {
	times, err := NextTimes(j, policy, now)
	if err != nil {
		return nil, err
	}
	stored, err := registry.MakeJobInterchange(j, f)
	if err != nil {
		return nil, fmt.Errorf("copying the job: %w", err)
	}
	stored.Status.Bound()
	stored.Status = amboy.JobStatusInfo{
		Attempts:      stored.Status.Attempts,
		DroppedErrors: stored.Status.DroppedErrors,
	}
	stored.Progress, stored.Result = nil, nil
	stored.RetryInfo = nextRetryInfo(stored.RetryInfo)
	stored.TimeInfo = times
	next, err := stored.Resolve(f)
	if err != nil {
		return nil, fmt.Errorf("copying the job: %w", err)
	}
	return next, nil
}

// NextRecord returns the record of the next attempt of a job whose attempt has ended, as
// NextAttempt and Put would make it.
func NextRecord(j amboy.Job, ended *driver.Record, policy amboy.RetryPolicy, now time.Time) (*driver.Record, error) {
	times, err := NextTimes(j, policy, now)
	if err != nil {
		return nil, err
	}
	next := *ended
	next.Progress, next.Result = nil, nil
	next.RetryInfo = nextRetryInfo(ended.RetryInfo)
	next.TimeInfo = times
	next.Status = NewStatus(&ended.Status, times)
	next.Status.Errors, next.Status.ErrorCount = nil, 0
	next.ForgetAt = time.Time{}
	next.Name = driver.RecordName(next.Group, j.ID(), next.RetryInfo)
	return &next, nil
}

// nextRetryInfo returns the retry info of the next attempt.
func nextRetryInfo(retry amboy.JobRetryInfo) amboy.JobRetryInfo {
	retry.CurrentAttempt++
	retry.NeedsRetry = false
	retry.Start, retry.End = time.Time{}, time.Time{}
	return retry
}

// NextTimes returns the times of the next attempt of a job, as it is put at now. The
// delay counts from the end of the previous attempt. NextTimes returns an error if the
// retry policy of the job panics or ends its goroutine, or if the delay would pass the dispatch-by time of the
// attempt.
func NextTimes(j amboy.Job, ofQueue amboy.RetryPolicy, now time.Time) (times amboy.JobTimeInfo, err error) {
	var delay time.Duration
	err = contain.Alone(func() error {
		delay = amboy.RetryDelay(j, ofQueue)
		return nil
	})
	if err != nil {
		return times, fmt.Errorf("calling the retry policy: %w", err)
	}
	times = amboy.JobTimeInfo{Created: now, MaxTime: j.TimeInfo().MaxTime}
	if delay > 0 {
		since := now
		if end := j.TimeInfo().End; !end.IsZero() && end.Before(now) {
			since = end
		}
		times.WaitUntil = since.Add(delay)
	}
	if dispatchBy := j.RetryInfo().DispatchBy; dispatchBy > 0 {
		times.DispatchBy = now.Add(dispatchBy)
	}
	return times, times.Validate()
}

// AddRetryError records why a job can't have another attempt. It is a bookkeeping error
// of the queue. It is added as an error of the job only if the job has no other error, so
// that the job fails.
func AddRetryError(j amboy.Job, tries int, cause error, now time.Time) {
	err := fmt.Errorf("attempt %d to enqueue retrying job: %w", tries, cause)
	if j.Error() == nil {
		j.AddError(err)
		return
	}
	status := j.Status()
	status.AddBookkeepingError(err, j.RetryInfo().CurrentAttempt, now)
	j.SetStatus(status)
}

// NoNextAttemptError wraps an error that the job itself caused, so that it has no next
// attempt. Errors of the store are not wrapped.
type NoNextAttemptError struct{ error }

// Unwrap returns the error that the job caused.
func (e *NoNextAttemptError) Unwrap() error { return e.error }

// AsNoNextAttempt returns an error that the job itself caused as a *NoNextAttemptError.
func AsNoNextAttempt(err error) error {
	if err == nil {
		return nil
	}
	return &NoNextAttemptError{err}
}

// ErrAttemptLimit is why a job that has used all its attempts has no next one.
var ErrAttemptLimit = errors.New("job has reached its maximum attempt limit")
