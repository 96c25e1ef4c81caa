package job_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
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
