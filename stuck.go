package amboy

import (
	"context"
	"time"
)

// StuckRun describes a run of a job that goes on although its context has ended, or its
// maximum time is used up.
type StuckRun struct {
	// Since is when the run should have returned.
	Since time.Time `bson:"since" json:"since" yaml:"since"`
	// Cause is why: the cause of the end of its context.
	Cause string `bson:"cause" json:"cause" yaml:"cause"`
	// Stack is that of the goroutine that runs the job, at most MaxAttemptStackSize bytes
	// of it. It is empty if it could not be read.
	Stack string `bson:"stack,omitempty" json:"stack,omitempty" yaml:"stack,omitempty"`
}

// StuckReporter is implemented by queues that show which of their jobs are stuck. Runners
// tell them, those of package pool among them.
type StuckReporter interface {
	// ReportStuck makes the progress of a job that Next returned show that its run is
	// stuck. The job keeps its lease and its scopes; it no longer counts against a limit
	// on the number of jobs that run at once. It returns an error that wraps ErrLeaseLost
	// if the job does not run here any more, and may be called while the job runs.
	ReportStuck(ctx context.Context, j Job, stuck StuckRun) error
}

// WithStuck returns a progress that shows a stuck run, whose texts it bounds.
func (p JobProgress) WithStuck(stuck StuckRun) JobProgress {
	stuck.Stack = truncate(stuck.Stack, MaxAttemptStackSize)
	stuck.Cause = truncate(stuck.Cause, MaxAttemptErrorSize)
	p.Stuck = &stuck
	return p
}

// Stuck returns how the job's run is stuck; nil if it does not run, or is not stuck.
func (i JobInfo) Stuck() *StuckRun {
	if i.State != StateRunning || i.Progress == nil || i.Progress.Stuck == nil || i.Progress.Stuck.Since.Before(i.Time.Start) {
		return nil
	}
	return i.Progress.Stuck
}
