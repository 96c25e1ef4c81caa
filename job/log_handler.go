package job

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// NewLogHandler returns a handler for log/slog that adds records which are logged under the context
// of a job to the log of the job, as Log does, and passes all records to next. A line is that of
// slog.TextHandler without the time. Only records that next is enabled for are handled.
//
//	slog.SetDefault(slog.New(job.NewLogHandler(slog.NewJSONHandler(os.Stderr, nil))))
//
// The handler is safe for concurrent use. For a job it blocks as Log does. It panics if next is nil.
func NewLogHandler(next slog.Handler) slog.Handler {
	if next == nil {
		panic("job.NewLogHandler: the next handler must not be nil")
	}
	return &logHandler{next: next}
}

const lowest = slog.Level(-1 << 30)

type logHandler struct {
	next slog.Handler
	// derive are the calls of WithAttrs and WithGroup that led to this handler.
	derive []func(slog.Handler) slog.Handler
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if _, ok := FromContext(ctx); ok {
		line, err := h.format(ctx, r)
		if err != nil {
			return err
		}
		Log(ctx, "%s", line)
	}
	return h.next.Handle(ctx, r)
}

// format has a buffer for each call: the values of a record may log while they are formatted.
func (h *logHandler) format(ctx context.Context, r slog.Record) (string, error) {
	r.Time = time.Time{} // the line of the job has one
	var line bytes.Buffer
	var text slog.Handler = slog.NewTextHandler(&line, &slog.HandlerOptions{Level: lowest})
	for _, derive := range h.derive {
		text = derive(text)
	}
	err := text.Handle(ctx, r)
	return strings.TrimSuffix(line.String(), "\n"), err
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derived(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.derived(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) derived(derive func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{next: derive(h.next), derive: append(slices.Clip(h.derive), derive)}
}
