package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// transactor runs a function of a test in the transactions of its jobs.
type transactor struct {
	db   *sql.DB
	run  func(ctx context.Context, tx *sql.Tx) (string, error)
	runs int
}

type transactorKey struct{}

var transactional = job.DefineResult("queue_test.transactional", 1, func(ctx context.Context, _ struct{}) (string, error) {
	x := ctx.Value(transactorKey{}).(*transactor)
	x.runs++
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO own VALUES (1)")
	if err != nil {
		return "", errors.Join(err, tx.Rollback())
	}
	return x.run(sqlite.WithTx(ctx, tx), tx)
}, job.Defaults[struct{}]{MaxAttempts: 2})

// runTransactional runs a job, and returns it with the number of rows that it committed.
func runTransactional(t *testing.T, x *transactor) (amboy.Job, int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	x.db, err = sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer func() { require.NoError(t, x.db.Close()) }()
	_, err = x.db.ExecContext(t.Context(), "CREATE TABLE own (n INTEGER)")
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: d, CloseDriver: true, NumWorkers: 1, LockTimeout: time.Minute,
		Middleware: []amboy.Middleware{{Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error {
				return next(context.WithValue(ctx, transactorKey{}, x), j)
			}
		}}},
	})
	require.NoError(t, err)
	defer q.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	put, err := transactional.New(struct{}{})
	require.NoError(t, err)
	require.NoError(t, q.Put(t.Context(), put))
	require.True(t, amboy.WaitJob(t.Context(), put, q))
	j, found := q.Get(t.Context(), put.ID())
	require.True(t, found)
	var rows int
	require.NoError(t, x.db.QueryRowContext(t.Context(), "SELECT count(*) FROM own").Scan(&rows))
	return j, rows
}

func TestAJobEndsInItsTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		run        func(ctx context.Context, tx *sql.Tx) (string, error)
		state      amboy.JobState
		runs, rows int
		says       string
	}{
		"that is committed": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "ignored", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit())
			},
			state: amboy.StateSucceeded, runs: 1, rows: 1,
		},
		"that is committed, and then returns an error": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit(), errors.New("too late"))
			},
			state: amboy.StateSucceeded, runs: 1, rows: 1,
		},
		"that is rolled back, and returns an error": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Rollback(), errors.New("no"))
			},
			state: amboy.StateFailed, runs: 2, says: "no",
		},
		"that is rolled back, and returns no error": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Rollback())
			},
			state: amboy.StateFailed, runs: 2, says: amboy.ErrNotCommitted.Error(),
		},
		"with a result that is too large": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				if err := job.CompleteWithResultIn(ctx, strings.Repeat("x", amboy.MaxResultBytes)); err != nil {
					return "", errors.Join(err, tx.Rollback())
				}
				return "", tx.Commit()
			},
			state: amboy.StateFailed, runs: 1, says: "at most",
		},
		"with a result of another type": {
			run: func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", errors.Join(job.CompleteWithResultIn(ctx, 1), tx.Rollback())
			},
			state: amboy.StateFailed, runs: 2, says: "type of the result must be that of the results of the job's definition",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := &transactor{run: test.run}
			j, rows := runTransactional(t, x)
			assert.Equal(t, test.state, amboy.NewJobInfo(j).State)
			assert.Equal(t, test.rows, rows)
			assert.Equal(t, test.runs, x.runs)
			if test.says != "" {
				require.ErrorContains(t, j.Error(), test.says)
				return
			}
			require.NoError(t, j.Error())
			left, err := transactional.ResultOf(j)
			require.NoError(t, err)
			assert.Equal(t, "done", left)
		})
	}
}

// A job that logged between the end and the commit waited for its own transaction until its lease
// was lost, and then ran again, for ever.
func TestALineThatWasLoggedBeforeTheCommitWaitedForTheTransaction(t *testing.T) {
	for name, report := range map[string]func(ctx context.Context) error{
		"Log":         func(ctx context.Context) error { job.Log(ctx, "committing"); return ctx.Err() },
		"SetProgress": func(ctx context.Context) error { return job.SetProgress(ctx, 1, "committing") },
	} {
		t.Run(name, func(t *testing.T) {
			x := &transactor{}
			var waited error
			x.run = func(ctx context.Context, tx *sql.Tx) (string, error) {
				err := job.CompleteWithResultIn(ctx, "done")
				bounded, cancel := context.WithTimeout(ctx, 30*time.Second) // it would wait for its own transaction
				defer cancel()
				waited = report(bounded)
				return "", errors.Join(err, tx.Commit())
			}
			j, rows := runTransactional(t, x)
			require.NoError(t, waited)
			require.NoError(t, j.Error())
			assert.Equal(t, 1, rows)
			assert.Equal(t, 1, x.runs)
		})
	}
}

// The transaction of the job keeps the store from writing the line. The job must not wait until its
// lease is over.
func TestALineThatWasLoggedInATransactionOfTheJobWaitedForItsEnd(t *testing.T) {
	x := &transactor{}
	var waited error
	x.run = func(ctx context.Context, tx *sql.Tx) (string, error) {
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second) // it would wait for its own transaction
		defer cancel()
		job.Log(bounded, "inserted")
		waited = bounded.Err()
		return "", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit())
	}
	j, rows := runTransactional(t, x)
	require.NoError(t, waited)
	require.NoError(t, j.Error())
	assert.Equal(t, 1, rows)
	require.Len(t, amboy.ProgressOf(j).Log, 1, "it is stored with the end of the job")
}

func TestTransactionsOfOtherStoresAreRefused(t *testing.T) {
	ctx := postgres.WithTx(t.Context(), nil)
	store, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(t, err)
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	for name, d := range map[string]driver.Driver{"memory": store, "sqlite": file} {
		q, queueErr := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, queueErr)
		requireForeign(ctx, t, name, q)
	}
	local, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Capacity: 10, PutBeforeStart: true})
	require.NoError(t, err)
	requireForeign(ctx, t, "local", local)
}

func requireForeign(ctx context.Context, t *testing.T, name string, q amboy.Queue) {
	t.Helper()
	_, err := transactional.Put(ctx, q, struct{}{})
	require.ErrorIs(t, err, amboy.ErrForeignTransaction, name)
	assert.Zero(t, q.Stats(ctx).Total, name)
	q.Close(ctx)
}

func TestCompletingInATransactionNeedsOne(t *testing.T) {
	x := &transactor{}
	var without, foreign error
	x.run = func(ctx context.Context, tx *sql.Tx) (string, error) {
		without = job.CompleteIn(driver.WithTransaction(ctx, nil))
		foreign = job.CompleteIn(postgres.WithTx(ctx, nil))
		return "done", tx.Rollback()
	}
	_, _ = runTransactional(t, x)
	require.ErrorContains(t, without, "context carries no transaction of the store")
	require.ErrorIs(t, foreign, amboy.ErrForeignTransaction)
	require.ErrorIs(t, job.CompleteIn(t.Context()), job.ErrNoJob)
}

func TestATransactionOfMongoDBIsRefusedByOtherStores(t *testing.T) {
	client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(mongotest.Open(t, mongotest.ReplicaSet()).URI()))
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) }()
	session, err := client.StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	ctx := mongo.NewSessionContext(t.Context(), session)
	newLocal := func() amboy.Queue {
		q, localErr := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Capacity: 10, PutBeforeStart: true})
		require.NoError(t, localErr)
		return q
	}
	outside := newLocal()
	defer outside.Close(t.Context())
	_, err = transactional.Put(ctx, outside, struct{}{})
	require.NoError(t, err, "no transaction has begun")
	require.NoError(t, session.StartTransaction())
	requireForeign(ctx, t, "local", newLocal())
	require.NoError(t, session.AbortTransaction(t.Context()))
}

// On PostgreSQL the checkpoint waited for the transaction until the lease of the job was lost.
func TestACheckpointAfterTheEndInATransactionWaitedForIt(t *testing.T) {
	var saved error
	j, rows := runTransactional(t, &transactor{run: func(ctx context.Context, tx *sql.Tx) (string, error) {
		err := job.CompleteIn(ctx)
		saved = job.Checkpoint(ctx, struct{}{})
		return "", errors.Join(err, tx.Commit())
	}})
	require.ErrorContains(t, saved, "it may have ended in a transaction")
	assert.Equal(t, amboy.StateSucceeded, amboy.NewJobInfo(j).State)
	assert.Equal(t, 1, rows)
}
