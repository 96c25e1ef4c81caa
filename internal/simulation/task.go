package simulation

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// Task is a job and the script of its handler. Its times count from the beginning of the
// world.
type Task struct {
	ID       string
	Queue    string
	Type     string
	Priority int
	// Scopes are all scopes that the job needs. EnqueueScopes are those that it takes
	// when it is put.
	Scopes, EnqueueScopes []string
	// Edges are the jobs of its queue that must end before it.
	Edges []string
	// NotBefore and DispatchBy bound when the job may begin. Zero means no bound.
	NotBefore, DispatchBy time.Duration
	// Attempts is the maximum number of attempts. With more than one the job is
	// retryable.
	Attempts int
	// Backoff is how long each attempt except the first waits.
	Backoff time.Duration
	// Failures is the number of attempts that fail. The next succeeds.
	Failures int
	// Lasts is the duration of a run.
	Lasts time.Duration
	// IgnoresContext is true for a handler that continues after its context ends.
	IgnoresContext bool
	// Refused is true for a job whose end the store refuses until some minutes after the
	// last fault.
	Refused bool
}

// epoch is the time of the store's clock at the beginning of a world.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func timeAt(at time.Duration) time.Time { return epoch.Add(at) }

func timeOrZero(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return timeAt(at)
}

// record returns the record of a task that is put.
func (t *Task) record(now time.Time) *driver.Record {
	retry := amboy.JobRetryInfo{}
	if t.Attempts > 1 {
		retry = amboy.JobRetryInfo{Retryable: true, BaseJobID: t.ID, MaxAttempts: t.Attempts, WaitUntil: t.Backoff}
	}
	r := &driver.Record{
		Name:           driver.RecordName(t.Queue, t.ID, retry),
		Type:           t.Type,
		Group:          t.Queue,
		Priority:       t.Priority,
		RequiredScopes: t.Scopes,
		EnqueueScopes:  t.EnqueueScopes,
		RetryInfo:      retry,
		TimeInfo: amboy.JobTimeInfo{
			Created:    now,
			WaitUntil:  timeOrZero(t.NotBefore),
			DispatchBy: timeOrZero(t.DispatchBy),
		},
	}
	if len(t.Edges) > 0 {
		r.Dependency = &registry.DependencyInterchange{Edges: t.Edges}
	}
	return r
}

// ended returns the record of a run that has ended in a state.
func ended(run *driver.Record, state amboy.JobState, now time.Time) *driver.Record {
	r := *run
	r.Status.Completed, r.Status.InProgress = true, false
	r.TimeInfo.End = now
	r.RetryInfo.NeedsRetry = false
	switch state {
	case amboy.StateRetrying:
		r.RetryInfo.NeedsRetry = true
		r.Status.Owner = ""
		addError(&r, "it failed")
	case amboy.StateFailed:
		addError(&r, "it failed")
	case amboy.StateCanceled:
		r.Status.Outcome = amboy.OutcomeCanceled
	case amboy.StateExpired:
		r.Status.Outcome = amboy.OutcomeExpired
	}
	return &r
}

func addError(r *driver.Record, text string) {
	r.Status.Errors = append(slices.Clip(r.Status.Errors), text)
	r.Status.ErrorCount = len(r.Status.Errors)
}

// replaced returns the record of an attempt that was replaced by its retry.
func replaced(r *driver.Record, now time.Time) *driver.Record {
	ended := *r
	ended.RetryInfo.NeedsRetry = false
	ended.RetryInfo.End = now
	ended.Status.ModificationCount++
	return &ended
}

// nextAttempt returns the record of the attempt after a failed one.
func nextAttempt(r *driver.Record, now time.Time) *driver.Record {
	next := *r
	next.Status = amboy.JobStatusInfo{}
	next.Scopes = nil
	next.RetryInfo.NeedsRetry = false
	next.RetryInfo.CurrentAttempt++
	next.Name = driver.RecordName(r.Group, r.JobID(), next.RetryInfo)
	next.TimeInfo = amboy.JobTimeInfo{Created: now}
	if delay := r.RetryInfo.WaitUntil; delay > 0 {
		next.TimeInfo.WaitUntil = now.Add(delay)
	}
	return &next
}
