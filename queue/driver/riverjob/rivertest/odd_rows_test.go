package rivertest_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
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

// A row with a time that JSON has no form for made each list that has it fail in the HTTP API.
func TestOneOddTimeFailedAWholeList(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, scheduled_at, created_at, attempted_at)
		VALUES ('{}', 'x', 25, '20000-01-01', '0044-01-01 BC', '-infinity')`)
	inspector, err := management.NewStoreInspector(w.open())
	require.NoError(t, err)
	page, err := inspector.FindJobs(w.ctx, management.JobFilter{}, management.PageRequest{Limit: 10})
	require.NoError(t, err)
	_, err = json.Marshal(page)
	require.NoError(t, err)
}

// Texts that no row can have were an error of the server.
func TestASearchForATextThatNoRowCanHaveFailed(t *testing.T) {
	w := newWorld(t)
	w.insert(pythonJob{kind: "x"})
	d := w.open()
	for _, odd := range []string{"a\x00", "\xff"} {
		for _, q := range []driver.Query{{Types: []string{odd}}, {Tags: []string{odd}}, {ID: odd + "*"}} {
			page, err := d.Find(w.ctx, q, driver.PageRequest{Limit: 10})
			require.NoError(t, err, "%+v", q)
			assert.Empty(t, page.Records)
		}
	}
}

// An action on all jobs failed because of one that has had all attempts that a row can count.
func TestARestartOfAJobWithTheHighestAttemptStoppedTheOthers(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, attempt, state, finalized_at)
		SELECT '{}', 'x', n, n, 'discarded', now() FROM unnest('{32767, 1}'::int[]) n`)
	acted, err := w.open().Act(w.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Restart}, Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 2, acted.Done)
	w.awaitCount("default", "available", 2)
}
