package amboy

import (
	"context"
	"time"
)

// StuckRun describes a run of a job that goes on although its context has ended or its
// maximum time is used up.
type StuckRun struct {
	// Since is when the run should have returned.
	Since time.Time `bson:"since" json:"since" yaml:"since"`
	// Cause is the cause with which its context ended.
	Cause string `bson:"cause" json:"cause" yaml:"cause"`
	// Stack is the stack of the goroutine that runs the job, truncated to
	// MaxAttemptStackSize bytes. It is empty if it could not be read.
	Stack string `bson:"stack,omitempty" json:"stack,omitempty" yaml:"stack,omitempty"`
}

// StuckReporter is implemented by queues that show which of their jobs are stuck. Runners,
// such as those of package pool, report stuck runs to them.
type StuckReporter interface {
	// ReportStuck records in the progress of a job that Next returned that its run is
	// stuck. The job keeps its lease and its scopes, but no longer counts towards a limit
	// on the number of running jobs. If this queue no longer runs the job, ReportStuck
	// returns an error that wraps ErrLeaseLost. It may be called while the job runs.
	ReportStuck(ctx context.Context, j Job, stuck StuckRun) error
}

// WithStuck returns a copy of the progress with a stuck run, whose texts it truncates.
func (p JobProgress) WithStuck(stuck StuckRun) JobProgress {
	stuck.Stack = truncate(stuck.Stack, MaxAttemptStackSize)
	stuck.Cause = truncate(stuck.Cause, MaxAttemptErrorSize)
	p.Stuck = &stuck
	return p
}

// Stuck returns how the job's run is stuck; nil if the job is not running or not stuck.
func (i JobInfo) Stuck() *StuckRun {
	if i.State != StateRunning || i.Progress == nil || i.Progress.Stuck == nil || i.Progress.Stuck.Since.Before(i.Time.Start) {
		return nil
	}
	return i.Progress.Stuck
}
