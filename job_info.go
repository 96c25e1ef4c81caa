package amboy

import (
	"fmt"
	"time"
)

// JobInfo describes a job without its content.
type JobInfo struct {
	ID     string
	Type   JobType
	Status JobStatusInfo
	Time   JobTimeInfo
	Retry  JobRetryInfo
	// State is derived from the other fields by StateOf, at the time of the call
	// that returned the JobInfo.
	State JobState
	// Reason explains State to an operator, if something is known: it is Status.Reason, or,
	// for a pending job, that this process has no function for it.
	Reason string
	// Priority is the job's priority, 0 by default.
	Priority int
	// Progress is the latest progress that the attempt reported; nil if it
	// reported none.
	Progress *JobProgress
	// Tags are the tags by which the job can be found.
	Tags []string
}

// NewJobInfo describes a job as it is at the time of the call. What keeps a job by reference
// from running is known only to its queue: call JobInfo of the queue for that.
func NewJobInfo(j Job) JobInfo {
	info := JobInfo{
		ID:       j.ID(),
		Type:     j.Type(),
		Status:   j.Status(),
		Time:     j.TimeInfo(),
		Retry:    j.RetryInfo(),
		Priority: PriorityOf(j),
		Progress: ProgressOf(j),
		Tags:     TagsOf(j),
	}
	info.State = StateOf(info, time.Now())
	info.Explain(func() bool { return RunsHere(j) })
	return info
}

// Explain sets Reason. runsHere reports whether this process has a function for the job; it
// is called only if the job is pending. Explain is for implementations of Queue.
func (i *JobInfo) Explain(runsHere func() bool) {
	i.Reason = i.Status.Reason
	if i.Reason == "" && i.State == StatePending && !runsHere() {
		i.Reason = fmt.Sprintf("no function is bound for %s in this process", i.Type.Name)
	}
}

// JobStatusInfo is what a queue stores about a job's progress. The fields below
// Errors are omitted from the stored form while they are unused.
type JobStatusInfo struct {
	// Owner is the queue that holds, or last held, the job's lease.
	Owner string `bson:"owner" json:"owner" yaml:"owner"`
	// Completed is true when the attempt has ended.
	Completed bool `bson:"completed" json:"completed" yaml:"completed"`
	// InProgress is true while the attempt runs.
	InProgress bool `bson:"in_prog" json:"in_progress" yaml:"in_progress"`
	// ModificationTime is when the lease was last taken or extended.
	ModificationTime time.Time `bson:"mod_ts" json:"mod_time" yaml:"mod_time"`
	// ModificationCount grows with every claim.
	ModificationCount int `bson:"mod_count" json:"mod_count" yaml:"mod_count"`
	// ErrorCount is the number of errors of this attempt.
	ErrorCount int `bson:"err_count" json:"err_count" yaml:"err_count"`
	// Errors are the messages of the errors of this attempt.
	Errors []string `bson:"errors,omitempty" json:"errors,omitempty" yaml:"errors,omitempty"`

	// Attempts are the errors of this and of the earlier attempts, oldest
	// first. They are bounded by MaxAttemptErrors.
	Attempts []AttemptError `bson:"attempt_errors,omitempty" json:"attempt_errors,omitempty" yaml:"attempt_errors,omitempty"`
	// DroppedErrors counts the attempt errors that were dropped to keep that bound.
	DroppedErrors int `bson:"dropped_errors,omitempty" json:"dropped_errors,omitempty" yaml:"dropped_errors,omitempty"`
	// Outcome is how the job ended, if Completed and ErrorCount do not show it.
	Outcome Outcome `bson:"outcome,omitempty" json:"outcome,omitempty" yaml:"outcome,omitempty"`
	// Hold is why an unfinished job is kept from running.
	Hold Hold `bson:"hold,omitempty" json:"hold,omitempty" yaml:"hold,omitempty"`
	// Reason explains Outcome or Hold to an operator.
	Reason string `bson:"reason,omitempty" json:"reason,omitempty" yaml:"reason,omitempty"`
	// Interruptions are the runs of this attempt whose leases ran out; nil if there
	// were none.
	Interruptions *Interruptions `bson:"interruptions,omitempty" json:"interruptions,omitempty" yaml:"interruptions,omitempty"`
}

// JobTimeInfo holds the times of a job. A zero time is unset.
type JobTimeInfo struct {
	// Created is when the job was put.
	Created time.Time `bson:"created,omitempty" json:"created,omitempty" yaml:"created,omitempty"`
	// Start is when the attempt began to run.
	Start time.Time `bson:"start,omitempty" json:"start,omitempty" yaml:"start,omitempty"`
	// End is when the attempt ended.
	End time.Time `bson:"end,omitempty" json:"end,omitempty" yaml:"end,omitempty"`
	// WaitUntil is the earliest time at which the job may start.
	WaitUntil time.Time `bson:"wait_until,omitempty" json:"wait_until,omitempty" yaml:"wait_until,omitempty"`
	// DispatchBy is the latest time at which the job may start. A job that has
	// not started by then expires.
	DispatchBy time.Time `bson:"dispatch_by,omitempty" json:"dispatch_by,omitempty" yaml:"dispatch_by,omitempty"`
	// MaxTime is the longest time that the job may run, after which its context
	// ends. Zero means no limit.
	MaxTime time.Duration `bson:"max_time,omitempty" json:"max_time,omitempty" yaml:"max_time,omitempty"`
}

// Duration is the time between Start and End. It is zero if either is unset or End
// is before Start.
func (i JobTimeInfo) Duration() time.Duration {
	if i.Start.IsZero() || i.End.Before(i.Start) {
		return 0
	}
	return i.End.Sub(i.Start)
}

// Waited is the time from when the attempt could start until Start. An attempt can
// start once it was put and is due. Waited is zero if Start is unset.
func (i JobTimeInfo) Waited() time.Duration {
	if i.Start.IsZero() {
		return 0
	}
	return max(0, i.Start.Sub(i.couldStart()))
}

// couldStart is when the attempt had been put and was due.
func (i JobTimeInfo) couldStart() time.Time {
	if i.WaitUntil.After(i.Created) {
		return i.WaitUntil
	}
	return i.Created
}

// Age is how long, at now, an attempt has been able to start. It is zero if the
// attempt was not put or is not due.
func (i JobTimeInfo) Age(now time.Time) time.Duration {
	if i.Created.IsZero() {
		return 0
	}
	return max(0, now.Sub(i.couldStart()))
}

// IsStale reports whether the dispatch-by time has passed.
func (i JobTimeInfo) IsStale() bool { return i.isStaleAt(time.Now()) }

func (i JobTimeInfo) isStaleAt(now time.Time) bool {
	return !i.DispatchBy.IsZero() && i.DispatchBy.Before(now)
}

// IsDispatchable reports whether the wait-until time has come.
func (i JobTimeInfo) IsDispatchable() bool { return !i.WaitUntil.After(time.Now()) }

// Validate returns an *InvalidJobError if wait-until is after dispatch-by or the
// maximum time is negative.
func (i JobTimeInfo) Validate() error {
	if !i.DispatchBy.IsZero() && i.WaitUntil.After(i.DispatchBy) {
		return &InvalidJobError{Field: "wait-until", Value: i.WaitUntil, Rule: "must not be after dispatch-by (" + i.DispatchBy.Format(time.RFC3339Nano) + ")"}
	}
	if i.MaxTime < 0 {
		return &InvalidJobError{Field: "max time", Value: i.MaxTime, Rule: "must not be negative"}
	}
	return nil
}

// DefaultMaxAttempts is the number of attempts of a retryable job that sets no
// number of its own.
const DefaultMaxAttempts = 10

// JobRetryInfo describes how a job is retried.
type JobRetryInfo struct {
	// Retryable allows the job to be retried.
	Retryable bool `bson:"retryable" json:"retryable,omitempty" yaml:"retryable,omitempty"`
	// NeedsRetry asks for another attempt after this one.
	NeedsRetry bool `bson:"needs_retry" json:"needs_retry,omitempty" yaml:"needs_retry,omitempty"`
	// BaseJobID is the job's ID, which all attempts share. Queues set it.
	BaseJobID string `bson:"base_job_id,omitempty" json:"base_job_id,omitempty" yaml:"base_job_id,omitempty"`
	// CurrentAttempt numbers the attempt, from 0.
	CurrentAttempt int `bson:"current_attempt" json:"current_attempt,omitempty" yaml:"current_attempt,omitempty"`
	// MaxAttempts is the total number of attempts; 0 means DefaultMaxAttempts.
	MaxAttempts int `bson:"max_attempts,omitempty" json:"max_attempts,omitempty" yaml:"max_attempts,omitempty"`
	// DispatchBy sets the next attempt's dispatch-by time, relative to the
	// time at which it is put; 0 means none.
	DispatchBy time.Duration `bson:"dispatch_by,omitempty" json:"dispatch_by,omitempty" yaml:"dispatch_by,omitempty"`
	// WaitUntil is how long the next attempt waits before it may start.
	WaitUntil time.Duration `bson:"wait_until,omitempty" json:"wait_until,omitempty" yaml:"wait_until,omitempty"`
	// Start is when the retry handler began to handle the job.
	Start time.Time `bson:"start,omitempty" json:"start,omitempty" yaml:"start,omitempty"`
	// End is when the retry handler finished.
	End time.Time `bson:"end,omitempty" json:"end,omitempty" yaml:"end,omitempty"`
	// MaxInterruptions is how often an attempt may be interrupted before the job is
	// parked (see Interruption); 0 means the queue's limit.
	MaxInterruptions int `bson:"max_interruptions,omitempty" json:"max_interruptions,omitempty" yaml:"max_interruptions,omitempty"`
}

// GetMaxAttempts is MaxAttempts, or DefaultMaxAttempts if MaxAttempts is 0.
func (i JobRetryInfo) GetMaxAttempts() int {
	if i.MaxAttempts <= 0 {
		return DefaultMaxAttempts
	}
	return i.MaxAttempts
}

// GetRemainingAttempts is the number of attempts that may follow this one. It
// is never negative.
func (i JobRetryInfo) GetRemainingAttempts() int {
	return max(0, i.GetMaxAttempts()-i.CurrentAttempt-1)
}

// ShouldRetry reports whether the job is retryable and asks for a retry.
func (i JobRetryInfo) ShouldRetry() bool { return i.Retryable && i.NeedsRetry }

// Options returns options that set every field but BaseJobID to its value in i.
func (i *JobRetryInfo) Options() JobRetryOptions {
	return JobRetryOptions{
		Retryable:      &i.Retryable,
		NeedsRetry:     &i.NeedsRetry,
		CurrentAttempt: &i.CurrentAttempt,
		MaxAttempts:    &i.MaxAttempts,
		DispatchBy:     &i.DispatchBy,
		WaitUntil:      &i.WaitUntil,
		Start:          &i.Start,
		End:            &i.End,

		MaxInterruptions: &i.MaxInterruptions,
	}
}

// JobRetryOptions are changes to a JobRetryInfo. Nil fields change nothing.
type JobRetryOptions struct {
	Retryable      *bool          `bson:"-" json:"-" yaml:"-"`
	NeedsRetry     *bool          `bson:"-" json:"-" yaml:"-"`
	CurrentAttempt *int           `bson:"-" json:"-" yaml:"-"`
	MaxAttempts    *int           `bson:"-" json:"-" yaml:"-"`
	DispatchBy     *time.Duration `bson:"-" json:"-" yaml:"-"`
	WaitUntil      *time.Duration `bson:"-" json:"-" yaml:"-"`
	Start          *time.Time     `bson:"-" json:"-" yaml:"-"`
	End            *time.Time     `bson:"-" json:"-" yaml:"-"`

	MaxInterruptions *int `bson:"-" json:"-" yaml:"-"`
}
