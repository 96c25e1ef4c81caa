package job_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	senders "github.com/mongodb/amboy/logger"
)

func TestLogHandlerWritesToTheJobAndToTheNextHandler(t *testing.T) {
	var all bytes.Buffer
	logger := slog.New(job.NewLogHandler(slog.NewTextHandler(&all, nil))).With("service", "x")
	d := job.Define(newName(), 1, func(ctx context.Context, n int) error {
		logger.WithGroup("g").InfoContext(ctx, "in a job", "n", n)
		logger.DebugContext(ctx, "not enabled")
		logger.Info("without the context")
		return nil
	})
	q := inline()
	t.Cleanup(func() { q.Close(context.Background()) })
	id, err := d.Put(t.Context(), q, 7)
	require.NoError(t, err)
	q.RunAll(t.Context())
	logger.InfoContext(t.Context(), "elsewhere")

	j, _ := q.Get(t.Context(), id)
	lines := amboy.ProgressOf(j).Log
	require.Len(t, lines, 1)
	assert.Equal(t, `level=INFO msg="in a job" service=x g.n=7`, lines[0].Text)
	for _, text := range []string{"in a job", "without the context", "elsewhere"} {
		assert.Contains(t, all.String(), text)
	}
	assert.NotContains(t, all.String(), "not enabled")
	assert.Panics(t, func() { job.NewLogHandler(nil) })
}

// loggingValue logs while it is formatted.
type loggingValue struct {
	ctx    context.Context
	logger *slog.Logger
}

func (v loggingValue) LogValue() slog.Value {
	v.logger.InfoContext(v.ctx, "inner")
	return slog.StringValue("value")
}

func TestAValueThatLogsBlockedItsJobForEver(t *testing.T) {
	logger := slog.New(job.NewLogHandler(slog.NewTextHandler(io.Discard, nil)))
	d := job.Define(newName(), 1, func(ctx context.Context, _ int) error {
		logger.InfoContext(ctx, "outer", "by", loggingValue{ctx, logger})
		return nil
	})
	q := inline()
	t.Cleanup(func() { q.Close(context.Background()) })
	id, err := d.Put(t.Context(), q, 7)
	require.NoError(t, err)
	q.RunAll(t.Context())
	j, _ := q.Get(t.Context(), id)
	var lines []string
	for _, line := range amboy.ProgressOf(j).Log {
		lines = append(lines, line.Text)
	}
	assert.Contains(t, lines, `level=INFO msg=outer by=value`)
	assert.Contains(t, lines, `level=INFO msg=inner`)
}

// outOfReach is a queue whose store can't be reached for a while.
type outOfReach struct {
	amboy.Queue
	calls int
}

func (q *outOfReach) SetProgress(context.Context, amboy.Job, amboy.JobProgress) error {
	time.Sleep(2 * time.Second)
	q.calls++
	if q.calls > 3 {
		return nil
	}
	return errors.New("no connection")
}

func TestALineThatCouldNotBeStoredBlockedItsJobUntilTheStoreWasBack(t *testing.T) {
	var all bytes.Buffer
	l := slog.New(job.NewLogHandler(slog.NewTextHandler(&all, nil)))
	sender, err := senders.NewSlogSender(l)
	require.NoError(t, err)
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(sender))
	t.Cleanup(func() { require.NoError(t, grip.SetSender(before)) })
	synctest.Test(t, func(t *testing.T) {
		q, j := &outOfReach{}, &written{}
		l.InfoContext(job.NewContext(amboy.ContextWithQueue(t.Context(), q), j), "hello")
		assert.Equal(t, 1, q.calls)
		assert.Len(t, j.Progress().Log, 1)
	})
	assert.Contains(t, all.String(), "storing a line of a job's log failed")
}
