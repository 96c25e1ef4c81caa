package rivertest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

var kills = flag.Int("kills", 6, "how many processes the kill test kills")

// The environment of a process of the kill test.
const (
	envChild  = "RIVERTEST_CHILD_URL"
	envSchema = "RIVERTEST_CHILD_SCHEMA"
)

const killedKind = "killed"

var errOverlap = errors.New("two processes run this attempt")

// runChild is a process that works queue default until it is killed.
func runChild() int {
	if err := child(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func child(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv(envChild))
	if err != nil {
		return err
	}
	runs := pgx.Identifier{os.Getenv(envSchema), "runs"}.Sanitize()
	definition := job.Define(killedKind, 1, func(ctx context.Context, _ args) error {
		// A run that lost its lease, which happens to a process that gets no processor time, is handed back once it has
		// returned, and its attempt begins again. Before that no other run of the attempt may begin.
		begun, failure := pool.Exec(ctx, "INSERT INTO "+runs+" AS r (job, attempt, process) VALUES ($1, $2, $3) ON CONFLICT (job, attempt) "+
			"DO UPDATE SET process = $3, ended = NULL, returned = false WHERE r.returned", job.IDFrom(ctx), job.AttemptFrom(ctx), os.Getpid())
		if failure == nil && begun.RowsAffected() == 0 {
			failure = errOverlap
		}
		if failure == nil {
			defer func() {
				_, _ = pool.Exec(context.WithoutCancel(ctx), "UPDATE "+runs+" SET returned = true WHERE job = $1 AND attempt = $2", job.IDFrom(ctx), job.AttemptFrom(ctx))
			}()
			_, failure = pool.Exec(ctx, "SELECT pg_sleep(random() / 50)")
		}
		if failure != nil {
			return failure
		}
		tx, failure := pool.Begin(ctx)
		if failure != nil {
			return failure
		}
		inTx := rand.IntN(2) == 0
		_, failure = tx.Exec(ctx, "UPDATE "+runs+" SET ended = clock_timestamp(), in_tx = $3 WHERE job = $1 AND attempt = $2", job.IDFrom(ctx), job.AttemptFrom(ctx), inTx)
		if failure == nil && inTx {
			failure = job.CompleteIn(riverjob.WithTx(ctx, tx))
		}
		if failure != nil {
			return errors.Join(failure, tx.Rollback(ctx))
		}
		return tx.Commit(ctx)
	})
	if definition.Err() != nil {
		return definition.Err()
	}
	d, err := riverjob.Open(ctx, riverjob.Options{Pool: pool, Schema: os.Getenv(envSchema), Queues: []string{"default"}})
	if err != nil {
		return err
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, Name: "default", NumWorkers: 4, LockTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	if err := q.Start(ctx); err != nil {
		return err
	}
	select {} // until it is killed
}

// TestExactlyOneSystemRunsARowAcrossKills kills processes of ours at random while they and a process of
// River work two queues. Half of the jobs end in transactions of their own. With -kills=200 it is the long form.
func TestExactlyOneSystemRunsARowAcrossKills(t *testing.T) {
	w := newWorld(t)
	n := 200 + 40*(*kills)
	w.exec(`CREATE TABLE {s}.runs (job bigint, attempt int, process int, ended timestamptz, in_tx boolean, returned boolean NOT NULL DEFAULT false, PRIMARY KEY (job, attempt))`)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT '{}', $1, 25 FROM generate_series(1, $2)`, killedKind, n)
	c := w.startRiver()
	many := make([]river.InsertManyParams, n)
	for i := range many {
		many[i] = river.InsertManyParams{Args: riverArgs{i}, InsertOpts: &river.InsertOpts{Queue: "river"}}
	}
	_, err := c.InsertMany(w.ctx, many)
	require.NoError(t, err)

	program, err := os.Executable()
	require.NoError(t, err)
	start := func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), envChild+"="+pgtest.URL(t), envSchema+"="+w.schema)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	processes := make([]*exec.Cmd, 4)
	for i := range processes {
		processes[i] = start()
	}
	kill := func(i int) {
		require.NoError(t, processes[i].Process.Kill())
		_ = processes[i].Wait() // It was killed.
	}
	defer func() {
		for i := range processes {
			kill(i)
		}
	}()
	runs := func() int { return ask[int](w, `SELECT count(*) FROM {s}.runs`) }
	for k := range *kills {
		// A kill is due when some more jobs have begun, so that processes are killed at work.
		next := runs() + 1 + rand.IntN(20)
		w.eventually(strconv.Itoa(next)+" runs have begun", func() bool {
			return runs() >= next || ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE queue = 'default' AND state <> 'completed'`) == 0
		})
		kill(k % len(processes))
		processes[k%len(processes)] = start()
	}
	// Retries of jobs whose processes were killed twice wait for 16 s, and thrice for 81 s.
	w.exec(`UPDATE {s}.river_job SET scheduled_at = now() WHERE queue = 'default' AND state = 'retryable'`)
	w.awaitCount("default", "completed", n)
	w.awaitCount("river", "completed", n)
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job j WHERE queue = 'default' AND NOT EXISTS (SELECT 1 FROM {s}.runs r WHERE r.job = j.id AND r.ended IS NOT NULL)`), "jobs that are completed and never ran to their end")
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job j WHERE queue = 'default' AND (SELECT max(attempt) FROM {s}.runs r WHERE r.job = j.id) + 1 <> attempt`), "jobs that ended under another attempt than the last")
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job j JOIN {s}.runs r ON r.job = j.id WHERE r.in_tx AND r.attempt + 1 <> j.attempt`), "jobs that ran again after their transaction was committed")
	assert.Zero(t, ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE queue = 'river' AND (attempt <> 1 OR errors IS NOT NULL)`), "jobs of River that did not run once")
	assert.Empty(t, ask[string](w, `SELECT coalesce(string_agg(attempted_by::text || errors::text, E'\n'), '') FROM {s}.river_job WHERE errors::text LIKE '%'||$1||'%'`, errOverlap.Error()),
		"an attempt that two processes ran at once")
	t.Logf("%d kills, %d jobs, %d runs, %d rescues", *kills, n, runs(),
		ask[int](w, `SELECT coalesce(sum((metadata->>'river:rescue_count')::int), 0) FROM {s}.river_job`))
}
