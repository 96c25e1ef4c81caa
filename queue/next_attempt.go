package queue

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// formatOf is the format in which a queue stores jobs. A job's type need not
// know how to be stored in another.
func formatOf(q amboy.RetryableQueue) amboy.Format {
	if stored, ok := q.(*driverQueue); ok {
		return stored.format
	}
	return amboy.JSON
}

// nextAttempt makes the next attempt of a job, as it is put at a point in time.
// It is copied through its stored form.
func nextAttempt(j amboy.Job, f amboy.Format, now time.Time) (amboy.Job, error) {
	stored, err := registry.MakeJobInterchange(j, f)
	if err != nil {
		return nil, fmt.Errorf("copying the job: %w", err)
	}
	stored.Status = amboy.JobStatusInfo{
		Attempts:      stored.Status.Attempts,
		DroppedErrors: stored.Status.DroppedErrors,
	}
	retry := &stored.RetryInfo
	retry.CurrentAttempt++
	retry.NeedsRetry = false
	retry.Start, retry.End = time.Time{}, time.Time{}

	stored.TimeInfo = amboy.JobTimeInfo{Created: now, MaxTime: stored.TimeInfo.MaxTime}
	if retry.WaitUntil > 0 {
		stored.TimeInfo.WaitUntil = now.Add(retry.WaitUntil)
	}
	if retry.DispatchBy > 0 {
		stored.TimeInfo.DispatchBy = now.Add(retry.DispatchBy)
	}
	next, err := stored.Resolve(f)
	if err != nil {
		return nil, fmt.Errorf("copying the job: %w", err)
	}
	return next, nil
}
