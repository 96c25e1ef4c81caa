package job

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

const (
	// logInterval is the minimum time between two writes of lines that a job logs.
	logInterval = time.Second
	// logTime is how long a write of lines may take. The store may be kept from it by a transaction
	// of the job itself, which continues only when the write has ended.
	logTime = time.Second
)

// InvalidProgressError means that SetProgress refused a fraction that is not from 0 to 1.
type InvalidProgressError struct {
	// JobID is the ID of the job, and Fraction the refused value.
	JobID    string
	Fraction float64
}

// Error names the job, the value and the rule.
func (e *InvalidProgressError) Error() string {
	return fmt.Sprintf("progress of job %q must be from 0 to 1 (is %v)", e.JobID, e.Fraction)
}

// SetProgress reports the progress of the job that runs under ctx: the part of the work
// that is done, from 0 to 1, and a text for operators, which is truncated to
// amboy.MaxLogLineBytes. The progress is kept with the job, together with its log, and
// shown by JobInfo while the job runs and later.
//
// It returns an error that wraps ErrNoJob if there is no job, an *InvalidProgressError for a
// fraction out of range, an *amboy.InvalidJobError for a job that does not embed Base, and the
// queue's error. It blocks for the call to the queue's store, and is safe for concurrent use.
func SetProgress(ctx context.Context, fraction float64, text string) error {
	run := runOf(ctx)
	if run == nil {
		return fmt.Errorf("setting the progress of a job: %w", ErrNoJob)
	}
	if !(fraction >= 0 && fraction <= 1) {
		return &InvalidProgressError{JobID: run.job.ID(), Fraction: fraction}
	}
	now := amboy.Now(amboy.QueueFromContext(ctx))
	progress, err := run.update(func(p *amboy.JobProgress) { p.Report(fraction, text, now) })
	if err != nil {
		return err
	}
	run.mu.Lock()
	run.stored = now
	run.mu.Unlock()
	return run.store(ctx, progress)
}

// Log adds a line, formatted as by fmt.Sprintf, to the log of the job that runs under ctx,
// within the bounds of amboy.JobProgress. JobInfo shows it. In a queue that stores jobs
// the lines of one second are written together: by the next call of SetProgress, by a call
// of Log after that second, or at the end of the run.
//
// Log does not fail. If there is no job or the store returns an error, it logs a warning
// to the log of the process; after an error of the store the line stays with the job, to
// be written later. It blocks for the call to the store, for at most a second, and is safe for
// concurrent use.
func Log(ctx context.Context, format string, args ...any) {
	line := amboy.LogLine{Time: amboy.Now(amboy.QueueFromContext(ctx)), Text: fmt.Sprintf(format, args...)}
	if err := log(ctx, line); err != nil {
		// The warning is not one of the job: a handler of NewLogHandler would store it too, which
		// fails as the line did.
		logging.Warning(context.WithValue(ctx, runContextKey{}, nil), message.Fields{
			"message": "storing a line of a job's log failed",
			"line":    line.Text,
			"job_id":  IDFrom(ctx),
			"error":   err.Error(),
		})
	}
}

func log(ctx context.Context, line amboy.LogLine) error {
	run := runOf(ctx)
	if run == nil {
		return ErrNoJob
	}
	progress, err := run.update(func(p *amboy.JobProgress) { p.AddLine(line) })
	if err != nil {
		return err
	}
	run.mu.Lock()
	due := line.Time.Sub(run.stored) >= logInterval
	if due {
		run.stored = line.Time
	}
	run.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	return run.store(ctx, progress)
}

// update applies a change to the job's progress and returns a copy.
func (c *runContext) update(change func(*amboy.JobProgress)) (amboy.JobProgress, error) {
	j, ok := c.job.(interface {
		updateProgress(func(*amboy.JobProgress)) amboy.JobProgress
	})
	if !ok {
		return amboy.JobProgress{}, &amboy.InvalidJobError{JobID: c.job.ID(), Field: "Go type", Value: fmt.Sprintf("%T", c.job), Rule: "must embed job.Base to report progress"}
	}
	return j.updateProgress(change), nil
}

// store passes the progress to a queue that keeps it separately from the job.
func (c *runContext) store(ctx context.Context, progress amboy.JobProgress) error {
	q, ok := amboy.QueueFromContext(ctx).(amboy.ProgressSetter)
	if !ok {
		return nil
	}
	if err := q.SetProgress(ctx, c.job, progress); err != nil {
		return fmt.Errorf("storing the progress of job %q: %w", c.job.ID(), err)
	}
	return nil
}
