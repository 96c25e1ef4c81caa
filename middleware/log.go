package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/mongodb/amboy"
)

// Log returns middleware that writes to a logger, or to slog.Default if logger is nil:
//
//   - "job ended" for each attempt, with queue, job_id, job_type, attempt (from 1), outcome
//     and duration, and with error if there is one. There is no queue if the job runs without
//     one. The level is Error if the job failed, Warn if it is retried or was interrupted,
//     and Info otherwise.
//   - "jobs put" for each Put and PutMany, with the number of jobs, and with job_id if
//     it is one job. The level is Debug, or Warn, with error, if any job was not added.
//
// Records are logged with the context of the attempt or of the Put, so that a handler can
// read the trace from it.
func Log(logger *slog.Logger) amboy.Middleware {
	l := jobLogger{logger}
	return amboy.Middleware{Run: l.run, Put: l.put}
}

type jobLogger struct{ given *slog.Logger }

func (l jobLogger) logger() *slog.Logger {
	if l.given == nil {
		return slog.Default()
	}
	return l.given
}

func (l jobLogger) run(next amboy.RunFunc) amboy.RunFunc {
	return func(ctx context.Context, j amboy.Job) error {
		begin := time.Now()
		attempt := j.RetryInfo().CurrentAttempt + 1
		err := next(ctx, j)
		outcome := OutcomeOf(ctx, j, err)
		level := levelOf(outcome)
		logger := l.logger()
		if !logger.Enabled(ctx, level) {
			return err
		}
		var attrs []slog.Attr
		if q := amboy.QueueFromContext(ctx); q != nil {
			attrs = append(attrs, slog.String("queue", amboy.NameOf(q)))
		}
		attrs = append(attrs,
			slog.String("job_id", j.ID()),
			slog.String("job_type", j.Type().Name),
			slog.Int("attempt", attempt),
			slog.String("outcome", string(outcome)),
			slog.Duration("duration", time.Since(begin)),
		)
		if err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		logger.LogAttrs(ctx, level, "job ended", attrs...)
		return err
	}
}

func levelOf(outcome Outcome) slog.Level {
	switch outcome {
	case Failed:
		return slog.LevelError
	case Retrying, Interrupted:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

func (l jobLogger) put(next amboy.PutFunc) amboy.PutFunc {
	return func(ctx context.Context, jobs []amboy.Job) error {
		err := next(ctx, jobs)
		level := slog.LevelDebug
		if err != nil {
			level = slog.LevelWarn
		}
		logger := l.logger()
		if !logger.Enabled(ctx, level) {
			return err
		}
		attrs := []slog.Attr{slog.Int("jobs", len(jobs))}
		if len(jobs) == 1 {
			attrs = append(attrs, slog.String("job_id", jobs[0].ID()))
		}
		if err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		logger.LogAttrs(ctx, level, "jobs put", attrs...)
		return err
	}
}
