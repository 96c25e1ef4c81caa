package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/queue"
)

// logTo returns a logger, and a function that returns the records written to it.
func logTo(level slog.Level) (*slog.Logger, func(*testing.T) []map[string]any) {
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	return logger, func(t *testing.T) (records []map[string]any) {
		t.Helper()
		for line := range strings.Lines(out.String()) {
			var record map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &record))
			delete(record, "time")
			delete(record, "duration")
			records = append(records, record)
		}
		return records
	}
}

func TestLog(t *testing.T) {
	logger, records := logTo(slog.LevelDebug)
	runAll(t, []amboy.Middleware{middleware.Log(logger)},
		newJob("fine", nil),
		newJob("fails", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }),
	)
	ended := func(level, id, outcome string, attempt int) map[string]any {
		return map[string]any{
			"level": level, "msg": "job ended", "job_id": id, "job_type": "func", "attempt": float64(attempt), "outcome": outcome,
		}
	}
	retrying, failed := ended("WARN", "fails", "retrying", 0), ended("ERROR", "fails", "failed", 1)
	retrying["error"], failed["error"] = "no", "no"
	assert.ElementsMatch(t, []map[string]any{
		{"level": "DEBUG", "msg": "jobs put", "jobs": 2.0},
		ended("INFO", "fine", "succeeded", 0), retrying, failed,
	}, records(t))
}

func TestLogOfARefusedPut(t *testing.T) {
	logger, records := logTo(slog.LevelInfo)
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true, Middleware: []amboy.Middleware{middleware.Log(logger)}})
	require.NoError(t, err)
	defer q.Close(context.Background())
	require.NoError(t, q.Put(t.Context(), newJob("j", nil)))
	require.Error(t, q.Put(t.Context(), newJob("j", nil)))
	assert.Equal(t, []map[string]any{
		{"level": "WARN", "msg": "jobs put", "jobs": 1.0, "job_id": "j", "error": `putting job "j": job "j" is in the queue already`},
	}, records(t))
}

func TestLogBelowItsLevel(t *testing.T) {
	logger, records := logTo(slog.LevelError)
	runAll(t, []amboy.Middleware{middleware.Log(logger)}, newJob("fine", nil))
	assert.Empty(t, records(t))
}
