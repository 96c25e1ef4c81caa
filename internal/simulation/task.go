package simulation

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// Task is a job, and the script of its handler. Its times count from the beginning of
// the world.
type Task struct {
	ID       string
	Queue    string
	Type     string
	Priority int
	// Scopes are all that it needs; EnqueueScopes the part that it takes when it is put.
	Scopes, EnqueueScopes []string
	// Edges are the jobs of its queue that must end first.
	Edges []string
	// NotBefore is when it may begin, and DispatchBy until when; zero for any time.
	NotBefore, DispatchBy time.Duration
	// Attempts is how many it may have; with more than one it is retryable.
	Attempts int
	// Backoff is how long each attempt but the first waits.
	Backoff time.Duration
	// Failures is the number of attempts that fail. The next succeeds.
	Failures int
	// Lasts is how long a run takes.
	Lasts time.Duration
	// IgnoresContext is true for a handler that goes on when its context ends.
	IgnoresContext bool
	// Refused is true of one whose end the store does not take, until some minutes after
	// the last fault.
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

// record is what is stored of a task that is put.
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

// ended is the record of a run that has ended in a state.
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

// replaced is the record of an attempt whose retry is done with.
func replaced(r *driver.Record, now time.Time) *driver.Record {
	ended := *r
	ended.RetryInfo.NeedsRetry = false
	ended.RetryInfo.End = now
	ended.Status.ModificationCount++
	return &ended
}

// nextAttempt is what is stored of the attempt after one that failed.
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
