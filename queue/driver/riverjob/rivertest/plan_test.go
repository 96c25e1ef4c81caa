package rivertest_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

var others = flag.Int("others", 20_000, "the number of jobs beside which claims are tested")

// counting opens a driver whose connections are counted apart from those of the test.
func (w *world) counting(change ...func(*riverjob.Options)) *riverjob.Driver {
	w.t.Helper()
	counted := func(o *riverjob.Options) { o.URL, o.Pool = pgtest.URL(w.t)+"&application_name="+w.schema, nil }
	return w.open(append(change, counted)...)
}

// tuplesRead closes a driver, and returns how many rows and index entries of river_job were read since the schema
// was made, except by the connections of the test.
func (w *world) tuplesRead(d *riverjob.Driver) int {
	w.t.Helper()
	require.NoError(w.t, d.Close(w.ctx))
	w.eventually("the connections of the driver are closed", func() bool {
		return ask[int](w, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, w.schema) == 0
	})
	return ask[int](w, `SELECT (t.seq_tup_read + i.read)::bigint FROM pg_stat_user_tables t,
		(SELECT sum(idx_tup_read) AS read FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname = 'river_job') i
		WHERE schemaname = $1 AND relname = 'river_job'`, w.schema)
}

// Each claim searched all available jobs for those that are not due yet.
func TestEachClaimReadAllJobsThatWereReady(t *testing.T) {
	const claims = 20
	w := newWorld(t)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT '{}', 'x', 25 FROM generate_series(1, $1)`, *others)
	before := w.tuplesRead(w.counting())
	d := w.counting()
	for range claims {
		require.Len(t, claimOne(w.ctx, t, d), 1)
	}
	perClaim := (w.tuplesRead(d) - before) / claims
	t.Logf("%d rows and index entries read a claim", perClaim)
	assert.Less(t, perClaim, *others/20)
}

// The planner has its default settings, and statistics or none.
func TestTheCostOfAClaimDoesNotDependOnScheduledAndFinishedJobs(t *testing.T) {
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed ", analyzed), func(t *testing.T) {
			const due = 200
			w := newWorld(t)
			w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, state, finalized_at, scheduled_at) SELECT '{}', 'x', 25,
				CASE WHEN n % 2 = 0 THEN 'completed' ELSE 'scheduled' END::{s}.river_job_state, CASE WHEN n % 2 = 0 THEN now() END,
				now() + interval '1 hour' FROM generate_series(1, 2 * $1) n`, *others)
			w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, state, scheduled_at) SELECT '{}', 'x', 25, 'scheduled', now() - interval '1 hour'
				FROM generate_series(1, $1)`, due)
			if analyzed {
				w.exec(`ANALYZE {s}.river_job`)
			}
			before := w.tuplesRead(w.counting())
			d := w.counting()
			for range due {
				require.Len(t, claimOne(w.ctx, t, d), 1)
			}
			perClaim := (w.tuplesRead(d) - before) / due
			t.Logf("%d rows and index entries read a claim", perClaim)
			assert.Less(t, perClaim, *others/20)
		})
	}
}

// A caller that waits until a queue has no work left asks each second. Each time all jobs that had ended were counted.
func TestWaitingForAQueueCountedAllItsEndedJobs(t *testing.T) {
	const times = 20
	w := newWorld(t)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, state, finalized_at) SELECT '{}', 'x', 25, 'completed', now() FROM generate_series(1, $1)`, *others)
	w.exec(`ANALYZE {s}.river_job`)
	before := w.tuplesRead(w.counting())
	d := w.counting()
	for range times {
		isIdle, err := d.IsIdle(w.ctx, "default")
		require.NoError(t, err)
		require.True(t, isIdle)
	}
	perCall := (w.tuplesRead(d) - before) / times
	t.Logf("%d rows and index entries read a call", perCall)
	assert.Less(t, perCall, *others/20)
}

func TestAQueueIsIdleIfAllItsJobsHaveEnded(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x"})
	for _, state := range []string{"available", "pending", "retryable", "running", "scheduled", "completed", "cancelled", "discarded"} {
		isEnd := state == "completed" || state == "cancelled" || state == "discarded"
		w.exec(`UPDATE {s}.river_job SET state = $2::text::{s}.river_job_state, finalized_at = CASE WHEN $3 THEN now() END,
			attempted_at = now(), scheduled_at = now() + interval '1 hour' WHERE id = $1`, id, state, isEnd)
		isIdle, err := d.IsIdle(w.ctx, "default")
		require.NoError(t, err)
		assert.Equal(t, isEnd, isIdle, state)
		stats, err := d.Stats(w.ctx, "default")
		require.NoError(t, err)
		assert.Equal(t, isEnd, stats.IsIdle(), state)
	}
}
