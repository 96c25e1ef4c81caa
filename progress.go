package amboy

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds on what a job logs. If either is exceeded, the oldest lines are dropped.
const (
	// MaxLogLines is the maximum number of lines.
	MaxLogLines = 100
	// MaxLogBytes is the maximum size, in bytes, of the text of all lines.
	MaxLogBytes = 16 << 10
	// MaxLogLineBytes is the maximum size, in bytes, of one line. A longer line is
	// truncated.
	MaxLogLineBytes = 2 << 10
)

// JobProgress is how far a running job has come.
type JobProgress struct {
	// Fraction is the part of the work that is done, from 0 to 1.
	Fraction float64 `bson:"fraction" json:"fraction" yaml:"fraction"`
	// Message describes the progress to an operator.
	Message string `bson:"message,omitempty" json:"message,omitempty" yaml:"message,omitempty"`
	// Time is when the progress was reported.
	Time time.Time `bson:"time" json:"time" yaml:"time"`
	// Log is what the job logged, oldest line first.
	Log []LogLine `bson:"log,omitempty" json:"log,omitempty" yaml:"log,omitempty"`
	// DroppedLines counts the lines that were dropped to keep the bounds.
	DroppedLines int `bson:"dropped_lines,omitempty" json:"dropped_lines,omitempty" yaml:"dropped_lines,omitempty"`
	// Stuck is set if the run continues although it should have ended. It stays set even
	// if the run returns later.
	Stuck *StuckRun `bson:"stuck,omitempty" json:"stuck,omitempty" yaml:"stuck,omitempty"`
}

// LogLine is a line that a job logged.
type LogLine struct {
	Time time.Time `bson:"time" json:"time" yaml:"time"`
	// Text is the line.
	Text string `bson:"text" json:"text" yaml:"text"`
}

// Report sets the fraction and the message, which it truncates to MaxLogLineBytes.
func (p *JobProgress) Report(fraction float64, message string, at time.Time) {
	p.Fraction, p.Message, p.Time = fraction, cutLine(message), at
}

// AddLine adds a line to the log and keeps the log within its bounds. It replaces invalid
// UTF-8 with question marks.
func (p *JobProgress) AddLine(line LogLine) {
	line.Text = cutLine(line.Text)
	p.Log = append(p.Log, line)
	size := 0
	for _, l := range p.Log {
		size += len(l.Text)
	}
	drop := 0
	for len(p.Log)-drop > MaxLogLines || size > MaxLogBytes {
		size -= len(p.Log[drop].Text)
		drop++
	}
	p.Log = slices.Delete(p.Log, 0, drop)
	p.DroppedLines += drop
}

// cutLine truncates text to MaxLogLineBytes and replaces invalid UTF-8.
func cutLine(text string) string {
	const mark = "…"
	if len(text) <= MaxLogLineBytes {
		return strings.ToValidUTF8(text, "?")
	}
	end := MaxLogLineBytes - len(mark)
	for n := 1; n < utf8.UTFMax && !utf8.RuneStart(text[end]); n++ {
		end-- // do not split a character
	}
	return strings.ToValidUTF8(text[:end], "?") + mark
}

// Clone returns a deep copy.
func (p JobProgress) Clone() JobProgress {
	p.Log = slices.Clone(p.Log)
	if p.Stuck != nil {
		stuck := *p.Stuck
		p.Stuck = &stuck
	}
	return p
}

// ProgressJob is implemented by jobs that can report their progress. job.Base implements
// it.
type ProgressJob interface {
	// Progress is the latest progress of this attempt; nil if it reported none.
	Progress() *JobProgress
	// SetProgress replaces the progress.
	SetProgress(JobProgress)
}

// ProgressOf returns the progress of a job; nil if it reported none or is not a
// ProgressJob.
func ProgressOf(j Job) *JobProgress {
	if p, ok := j.(ProgressJob); ok {
		return p.Progress()
	}
	return nil
}

// ProgressSetter is implemented by queues that hold jobs in a stored form, which does not
// change by itself when a running job reports progress.
type ProgressSetter interface {
	// SetProgress stores the progress of a job that this queue runs, so that Get and
	// JobInfo show it. The error wraps ErrLeaseLost if this queue does not run the job,
	// or no longer does.
	SetProgress(ctx context.Context, j Job, progress JobProgress) error
}

// StuckRun describes a run of a job that continues although its context has ended or its
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
	// stuck. The job keeps its lease and its scopes, and counts towards the limits of
	// SetMaxRunning and LimitType, but no longer towards the number of workers of a group.
	// If this queue no longer runs the job, ReportStuck returns an error that wraps
	// ErrLeaseLost. It may be called while the job runs.
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
