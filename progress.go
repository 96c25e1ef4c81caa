package amboy

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds of what a job logs. The oldest lines are dropped, so that the rest
// is within both.
const (
	// MaxLogLines is the number of lines.
	MaxLogLines = 100
	// MaxLogBytes is the number of bytes of all their texts.
	MaxLogBytes = 16 << 10
	// MaxLogLineBytes is the number of bytes of one text. A longer one is cut.
	MaxLogLineBytes = 2 << 10
)

// JobProgress is how far a running job has come.
type JobProgress struct {
	// Fraction is the part that is done, from 0 to 1.
	Fraction float64 `bson:"fraction" json:"fraction" yaml:"fraction"`
	// Message says it to a person.
	Message string `bson:"message,omitempty" json:"message,omitempty" yaml:"message,omitempty"`
	// Time is when it was reported.
	Time time.Time `bson:"time" json:"time" yaml:"time"`
	// Log has what the job logged, oldest first.
	Log []LogLine `bson:"log,omitempty" json:"log,omitempty" yaml:"log,omitempty"`
	// DroppedLines counts the lines that the bounds left out.
	DroppedLines int `bson:"dropped_lines,omitempty" json:"dropped_lines,omitempty" yaml:"dropped_lines,omitempty"`
	// Stuck is set if the run goes on although it should have ended. It stays when the run
	// returns after all.
	Stuck *StuckRun `bson:"stuck,omitempty" json:"stuck,omitempty" yaml:"stuck,omitempty"`
}

// LogLine is something that a job logged.
type LogLine struct {
	Time time.Time `bson:"time" json:"time" yaml:"time"`
	Text string    `bson:"text" json:"text" yaml:"text"`
}

// Report sets the fraction and the message, of which it keeps MaxLogLineBytes.
func (p *JobProgress) Report(fraction float64, message string, at time.Time) {
	p.Fraction, p.Message, p.Time = fraction, cutLine(message), at
}

// AddLine adds a line to the log, within its bounds. Bytes that are not UTF-8 are
// replaced by question marks.
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

// cutLine bounds the text of a line.
func cutLine(text string) string {
	const mark = "…"
	if len(text) <= MaxLogLineBytes {
		return strings.ToValidUTF8(text, "?")
	}
	end := MaxLogLineBytes - len(mark)
	for n := 1; n < utf8.UTFMax && !utf8.RuneStart(text[end]); n++ {
		end-- // so as not to cut a character
	}
	return strings.ToValidUTF8(text[:end], "?") + mark
}

// Clone returns a copy that shares nothing with the progress.
func (p JobProgress) Clone() JobProgress {
	p.Log = slices.Clone(p.Log)
	if p.Stuck != nil {
		stuck := *p.Stuck
		p.Stuck = &stuck
	}
	return p
}

// ProgressJob is implemented by jobs that can say how far they have come, for all
// to see. job.Base implements it.
type ProgressJob interface {
	// Progress is what this attempt has last said; nil where it said nothing.
	Progress() *JobProgress
	// SetProgress replaces it.
	SetProgress(JobProgress)
}

// ProgressOf returns how far a job has come; nil where it said nothing, and for a
// type that can't say.
func ProgressOf(j Job) *JobProgress {
	if p, ok := j.(ProgressJob); ok {
		return p.Progress()
	}
	return nil
}

// ProgressSetter is implemented by queues that hold jobs in a stored form, which
// does not change by itself when a running job says how far it has come.
type ProgressSetter interface {
	// SetProgress stores the progress of a job that runs here, for Get and
	// JobInfo to show. The error wraps ErrLeaseLost where the job does not run
	// here, or not any more.
	SetProgress(ctx context.Context, j Job, progress JobProgress) error
}
