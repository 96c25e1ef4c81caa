package job

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// logInterval is the time that passes, at least, between two writes of lines that a
// job logs.
const logInterval = time.Second

// SetProgress says how far the job has come that runs under a context: the part that
// is done, from 0 to 1, and a text for a person, which is cut at
// amboy.MaxLogLineBytes. It is kept with the job, with what the job logged, and shown
// by JobInfo while the job runs and later.
//
// It returns an error that wraps ErrNoJob where there is no job, an
// *amboy.InvalidJobError for a fraction that is out of range and for a job whose type
// can't say its progress, and the queue's error. It blocks as long as the queue's
// store takes, and is safe for concurrent use.
func SetProgress(ctx context.Context, fraction float64, text string) error {
	run := runOf(ctx)
	if run == nil {
		return fmt.Errorf("setting the progress of a job: %w", ErrNoJob)
	}
	if !(fraction >= 0 && fraction <= 1) {
		return &amboy.InvalidJobError{JobID: run.job.ID(), Field: "progress", Value: fraction, Rule: "must be from 0 to 1"}
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

// Log keeps a line with the job that runs under a context, as fmt.Sprintf makes it,
// within the bounds of amboy.JobProgress. JobInfo shows it. In a queue that stores
// jobs the lines of one second are written together: with the next call of
// SetProgress, or of Log when the second is over, or else with the end of the run.
//
// Log does not fail. A line without a job, and the error of a store, go to the log of
// the process; in the latter case the line stays with the job, to be written later.
// It blocks as long as the store takes, and is safe for concurrent use.
func Log(ctx context.Context, format string, args ...any) {
	line := amboy.LogLine{Time: amboy.Now(amboy.QueueFromContext(ctx)), Text: fmt.Sprintf(format, args...)}
	if err := log(ctx, line); err != nil {
		logging.Warning(ctx, message.Fields{
			"message": "could not store a line that a job logged",
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
	return run.store(ctx, progress)
}

// update changes what the job says of its progress, and returns a copy.
func (c *runContext) update(change func(*amboy.JobProgress)) (amboy.JobProgress, error) {
	j, ok := c.job.(interface {
		updateProgress(func(*amboy.JobProgress)) amboy.JobProgress
	})
	if !ok {
		return amboy.JobProgress{}, &amboy.InvalidJobError{JobID: c.job.ID(), Field: "Go type", Value: fmt.Sprintf("%T", c.job), Rule: "must embed job.Base, to have a progress"}
	}
	return j.updateProgress(change), nil
}

// store hands the progress to a queue that keeps it elsewhere than in the job.
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
