package job

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
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
	line := &logLine{}
	return &logHandler{next: next, text: slog.NewTextHandler(&line.text, &slog.HandlerOptions{Level: lowest}), line: line}
}

const lowest = slog.Level(-1 << 30)

type logHandler struct {
	next slog.Handler
	text slog.Handler // writes to line
	line *logLine
}

// logLine is shared by the handlers that were derived from one.
type logLine struct {
	mu   sync.Mutex
	text bytes.Buffer
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

func (h *logHandler) format(ctx context.Context, r slog.Record) (string, error) {
	r.Time = time.Time{} // the line of the job has one
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.text.Reset()
	err := h.text.Handle(ctx, r)
	return strings.TrimSuffix(h.line.text.String(), "\n"), err
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{next: h.next.WithAttrs(attrs), text: h.text.WithAttrs(attrs), line: h.line}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{next: h.next.WithGroup(name), text: h.text.WithGroup(name), line: h.line}
}
