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
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
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
			delete(record, "queue") // see TestLogDidNotNameTheQueue
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
	retrying, failed := ended("WARN", "fails", "retrying", 1), ended("ERROR", "fails", "failed", 2)
	retrying["error"], failed["error"] = "no", "no"
	assert.ElementsMatch(t, []map[string]any{
		{"level": "DEBUG", "msg": "jobs put", "jobs": 2.0},
		ended("INFO", "fine", "succeeded", 1), retrying, failed,
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

var note = job.Define("middleware-test.note", 1, func(context.Context, string) error { return nil })

// In a group each tenant has a queue, and the record of a run did not say whose job it was.
func TestLogDidNotNameTheQueue(t *testing.T) {
	var out bytes.Buffer
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, NumWorkers: 1,
		Middleware: []amboy.Middleware{middleware.Log(slog.New(slog.NewTextHandler(&out, nil)))},
	}})
	require.NoError(t, err)
	q, err := group.Get(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, note.PutAndWait(t.Context(), q, "welcome"))
	require.NoError(t, group.Close(context.Background()))
	assert.Contains(t, out.String(), `msg="job ended" queue=acme job_id=`)
}

func TestLogBelowItsLevel(t *testing.T) {
	logger, records := logTo(slog.LevelError)
	runAll(t, []amboy.Middleware{middleware.Log(logger)}, newJob("fine", nil))
	assert.Empty(t, records(t))
}
