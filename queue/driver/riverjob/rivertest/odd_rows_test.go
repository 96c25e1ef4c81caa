package rivertest_test

import (
	"context"
	"testing"

	"github.com/mongodb/amboy/job"
)

// Rows that were inserted with SQL, with metadata that is no object, or null in a list, could not be
// read. One of them stopped all claims of its queue.
func TestOneOddRowStoppedItsQueue(t *testing.T) {
	w := newWorld(t)
	kind := define(t, func(ctx context.Context, _ args) error {
		job.Log(ctx, "running")
		if job.AttemptFrom(ctx) == 0 {
			return errDisk
		}
		return nil
	}, job.Defaults[args]{RetryPolicy: fixed(0)})
	var ids []int64
	for _, odd := range []string{`'[1]', '{}', '{}'`, `'null', '{}', '{}'`, `'"text"', '{}', '{}'`, `'{}', '{NULL}', '{}'`, `'{}', '{}', '{NULL}'`} {
		ids = append(ids, ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, metadata, tags, attempted_by)
			VALUES ('{}', $1, 25, `+odd+`) RETURNING id`, kind))
	}
	ids = append(ids, w.insert(pythonJob{kind: kind}))
	w.start()
	for _, id := range ids {
		w.eventually("the job is completed", func() bool {
			return ask[string](w, `SELECT state::text FROM {s}.river_job WHERE id = $1`, id) == "completed"
		})
	}
}
