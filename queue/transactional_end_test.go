package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// ownTransaction is a transaction of a job.
type ownTransaction interface {
	Commit() error
	Rollback() error
}

// transactor runs a function of a test in the transactions of its jobs.
type transactor struct {
	run  func(ctx context.Context, tx ownTransaction) (string, error)
	runs int
	// running is done when the runs have returned, which may be after the job has ended.
	running sync.WaitGroup
	// begin begins a transaction and inserts a row of the test. The context that it returns carries
	// the transaction.
	begin func(ctx context.Context) (context.Context, ownTransaction, error)
}

type transactorKey struct{}

var transactional = job.DefineResult("queue_test.transactional", 1, func(ctx context.Context, _ struct{}) (string, error) {
	x := ctx.Value(transactorKey{}).(*transactor)
	x.runs++
	ctx, tx, err := x.begin(ctx)
	if err != nil {
		return "", err
	}
	return x.run(ctx, tx)
}, job.Defaults[struct{}]{MaxAttempts: 2})

// transactionalStore is a store of a test with rows beside the jobs.
type transactionalStore struct {
	driver driver.Driver // of which the test makes a queue; nil if it does so by itself
	begin  func(ctx context.Context) (context.Context, ownTransaction, error)
	rows   func() int
}

func newTransactionalFile(t *testing.T) transactionalStore {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE own (n INTEGER)")
	require.NoError(t, err)
	return transactionalStore{
		driver: d,
		begin: func(ctx context.Context) (context.Context, ownTransaction, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, nil, err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO own VALUES (1)")
			if err != nil {
				return nil, nil, errors.Join(err, tx.Rollback())
			}
			return sqlite.WithTx(ctx, tx), tx, nil
		},
		rows: func() (rows int) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM own").Scan(&rows))
			return rows
		},
	}
}

// sessionTransaction is a transaction of MongoDB.
type sessionTransaction struct {
	mongo.Session
	ctx context.Context
}

func (tx sessionTransaction) Commit() error { return tx.CommitTransaction(tx.ctx) }

func (tx sessionTransaction) Rollback() error { return tx.AbortTransaction(tx.ctx) }

func newTransactionalDatabase(t *testing.T) (transactionalStore, *mongotest.Deployment) {
	t.Helper()
	server := mongotest.Open(t, mongotest.ReplicaSet())
	own := server.Client().Database(server.Database()).Collection("own")
	require.NoError(t, own.Database().CreateCollection(t.Context(), own.Name()))
	return transactionalStore{
		begin: func(ctx context.Context) (context.Context, ownTransaction, error) {
			session, err := server.Client().StartSession()
			if err != nil {
				return nil, nil, err
			}
			t.Cleanup(func() { session.EndSession(context.Background()) })
			err = session.StartTransaction()
			if err != nil {
				return nil, nil, err
			}
			tx := sessionTransaction{session, ctx}
			inTx := mongo.NewSessionContext(ctx, session)
			if _, err = own.InsertOne(inTx, bson.D{}); err != nil {
				return nil, nil, errors.Join(err, tx.Rollback())
			}
			return inTx, tx, nil
		},
		rows: func() int {
			rows, err := own.CountDocuments(t.Context(), bson.D{})
			require.NoError(t, err)
			return int(rows)
		},
	}, server
}

// transactionalQueues are the queues whose jobs can end in transactions of their own, each by one of its
// constructors. PostgreSQL is tested in package crashtest.
var transactionalQueues = map[string]func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue){
	"SQLite": func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue) {
		s := newTransactionalFile(t)
		return s, transactionalQueue(t, s.driver, use)
	},
	"MongoDB": func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue) {
		s, server := newTransactionalDatabase(t)
		return s, transactionalQueue(t, openMongoDBDriver(t, server), use)
	},
	"MongoDB, NewDriverGroup": func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue) {
		s, server := newTransactionalDatabase(t)
		g, err := queue.NewDriverGroup(context.WithoutCancel(t.Context()), queue.DriverGroupOptions{DefaultQueue: transactionalOptions(openMongoDBDriver(t, server), use)})
		require.NoError(t, err)
		return s, tenantOf(t, g)
	},
	"MongoDB, NewMongoDBQueue": func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue) {
		s, server := newTransactionalDatabase(t)
		q, err := queue.NewMongoDBQueue(t.Context(), transactionalMongoDBOptions(server, use))
		require.NoError(t, err)
		t.Cleanup(func() { q.Close(context.Background()) })
		return s, q
	},
	"MongoDB, NewMongoDBSingleQueueGroup": func(t *testing.T, use amboy.Middleware) (transactionalStore, amboy.Queue) {
		s, server := newTransactionalDatabase(t)
		g, err := queue.NewMongoDBSingleQueueGroup(context.WithoutCancel(t.Context()), queue.MongoDBQueueGroupOptions{DefaultQueue: transactionalMongoDBOptions(server, use)})
		require.NoError(t, err)
		return s, tenantOf(t, g)
	},
}

func transactionalOptions(d driver.Driver, use amboy.Middleware) queue.DriverQueueOptions {
	return queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1, LockTimeout: time.Minute, Middleware: []amboy.Middleware{use}}
}

func transactionalMongoDBOptions(server *mongotest.Deployment, use amboy.Middleware) queue.MongoDBQueueOptions {
	return queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{Client: server.Client(), DB: server.Database(), Collection: "jobs", LockTimeout: time.Minute},
		NumWorkers: new(1),
		Middleware: []amboy.Middleware{use},
	}
}

func openMongoDBDriver(t *testing.T, server *mongotest.Deployment) driver.Driver {
	t.Helper()
	d, err := mongodb.Open(t.Context(), mongodb.Options{Client: server.Client(), DB: server.Database(), Collection: "jobs", Grouped: true})
	require.NoError(t, err)
	return d
}

func transactionalQueue(t *testing.T, d driver.Driver, use amboy.Middleware) amboy.Queue {
	t.Helper()
	q, err := queue.NewDriverQueue(transactionalOptions(d, use))
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	return q
}

// tenantOf returns a queue of a group. The context of the group must not end with the test: the group would close
// then, and report what a slow server has not answered within a second.
func tenantOf(t *testing.T, g amboy.QueueGroup) amboy.Queue {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	q, err := g.Get(t.Context(), "tenant")
	require.NoError(t, err)
	return q
}

// onEachTransactional runs a test on each kind of queue.
func onEachTransactional(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for kind := range transactionalQueues {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// runTransactional runs a job in a queue of a kind, and returns it with the number of rows that it
// committed.
func runTransactional(t *testing.T, kind string, x *transactor) (amboy.Job, int) {
	t.Helper()
	s, q := transactionalQueues[kind](t, amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			x.running.Add(1)
			defer x.running.Done()
			return next(context.WithValue(ctx, transactorKey{}, x), j)
		}
	}})
	x.begin = s.begin
	if !q.Info().Started {
		require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	}
	put, err := transactional.New(struct{}{})
	require.NoError(t, err)
	require.NoError(t, q.Put(t.Context(), put))
	require.True(t, amboy.WaitJob(t.Context(), put, q))
	x.running.Wait()
	j, found := q.Get(t.Context(), put.ID())
	require.True(t, found)
	return j, s.rows()
}

func TestAJobEndsInItsTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		run        func(ctx context.Context, tx ownTransaction) (string, error)
		state      amboy.JobState
		runs, rows int
		says       string
	}{
		"that is committed": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "ignored", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit())
			},
			state: amboy.StateSucceeded, runs: 1, rows: 1,
		},
		"that is committed, and then returns an error": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit(), errors.New("too late"))
			},
			state: amboy.StateSucceeded, runs: 1, rows: 1,
		},
		"that is rolled back, and returns an error": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Rollback(), errors.New("no"))
			},
			state: amboy.StateFailed, runs: 2, says: "no",
		},
		"that is rolled back, and returns no error": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Rollback())
			},
			state: amboy.StateFailed, runs: 2, says: amboy.ErrNotCommitted.Error(),
		},
		"with a result that is too large": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				if err := job.CompleteWithResultIn(ctx, strings.Repeat("x", amboy.MaxResultBytes)); err != nil {
					return "", errors.Join(err, tx.Rollback())
				}
				return "", tx.Commit()
			},
			state: amboy.StateFailed, runs: 1, says: "at most",
		},
		"with a result of another type": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteWithResultIn(ctx, 1), tx.Rollback())
			},
			state: amboy.StateFailed, runs: 2, says: "type of the result must be that of the results of the job's definition",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachTransactional(t, func(t *testing.T, kind string) {
				x := &transactor{run: test.run}
				j, rows := runTransactional(t, kind, x)
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
		})
	}
}

// The job was stored as canceled, although it ends as succeeded in a transaction. A process that learned late of the
// commit took that for its own end of the attempt.
func TestAJobThatHadCanceledItselfEndedInATransaction(t *testing.T) {
	onEachTransactional(t, func(t *testing.T, kind string) {
		var refusal error
		_, rows := runTransactional(t, kind, &transactor{run: func(ctx context.Context, tx ownTransaction) (string, error) {
			j, _ := job.FromContext(ctx)
			status := j.Status()
			status.Outcome = amboy.OutcomeCanceled
			j.SetStatus(status)
			if refusal = job.CompleteIn(ctx); refusal == nil {
				return "", tx.Commit()
			}
			return "", errors.Join(amboy.NonRetryable(refusal), tx.Rollback())
		}})
		require.ErrorContains(t, refusal, "outcome canceled")
		assert.Zero(t, rows)
	})
}

// While all workers of a process are busy, its change stream does not show that the transaction of a job was
// committed.
func TestAJobThatEndsInATransactionOfABusyProcessFreesItsScopeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mongotest.Open(t, mongotest.InMemory())
		q := transactionalQueue(t, openMongoDBDriver(t, server), amboy.Middleware{})
		require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
		var ended, started time.Time
		holds := newJob(t, "holds", func(ctx context.Context, j *funcJob) {
			time.Sleep(30 * time.Second)
			session, err := server.Client().StartSession()
			if err != nil {
				j.AddError(err)
				return
			}
			defer session.EndSession(ctx)
			_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) { //nolint:contextcheck // It inherits it.
				return nil, q.(amboy.TransactionalCompleter).CompleteIn(ctx, j)
			})
			j.AddError(err)
			ended = time.Now()
		})
		holds.SetScopes([]string{"scope"})
		require.NoError(t, q.Put(t.Context(), holds))
		waits := newJob(t, "waits", func(context.Context, *funcJob) { started = time.Now() })
		waits.SetScopes([]string{"scope"})
		require.NoError(t, q.Put(t.Context(), waits))
		require.True(t, amboy.Wait(t.Context(), q))
		held, _ := q.Get(t.Context(), "holds")
		require.NoError(t, held.Error())
		assert.Less(t, started.Sub(ended), 100*time.Millisecond)
	})
}

// Each transaction that is longer than the interval of renewals meets one. It is repeated once: after the first call
// the lease is not renewed.
func TestATransactionOfMongoDBThatIsLongerThanARenewalIsRepeatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mongotest.Open(t, mongotest.InMemory())
		q := transactionalQueue(t, openMongoDBDriver(t, server), amboy.Middleware{})
		require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
		own := server.Client().Database(server.Database()).Collection("own")
		require.NoError(t, own.Database().CreateCollection(t.Context(), own.Name()))
		tries := 0
		long := newJob(t, "long", func(ctx context.Context, j *funcJob) {
			session, err := server.Client().StartSession()
			if err != nil {
				j.AddError(err)
				return
			}
			defer session.EndSession(ctx)
			_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) { //nolint:contextcheck // It inherits it.
				tries++
				_, failure := own.InsertOne(ctx, bson.D{})
				if failure != nil {
					return nil, failure
				}
				time.Sleep(40 * time.Second) // of the lock timeout of a minute
				return nil, q.(amboy.TransactionalCompleter).CompleteIn(ctx, j)
			})
			j.AddError(err)
		})
		require.NoError(t, q.Put(t.Context(), long))
		require.True(t, amboy.WaitJob(t.Context(), long, q))
		stored, _ := q.Get(t.Context(), "long")
		require.NoError(t, stored.Error())
		assert.Equal(t, amboy.StateSucceeded, amboy.NewJobInfo(stored).State)
		assert.Equal(t, 2, tries)
		assert.Equal(t, 1, stored.Status().ModificationCount, "it ran once")
	})
}

// As if the commit had no answer, the function returns before it. The process took its own end of the attempt, which the
// store had refused, for the one of the transaction: the job failed, and was to be retried.
func TestACommitAfterTheJobHadReturnedWasNotNoticed(t *testing.T) {
	for name, returns := range map[string]func(*funcJob){
		"without an error": func(*funcJob) {},
		"with an error":    func(j *funcJob) { j.AddRetryableError(errors.New("the commit has no answer")) },
		"snoozed":          func(j *funcJob) { j.Snooze(time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := mongotest.Open(t, mongotest.InMemory())
				q := transactionalQueue(t, openMongoDBDriver(t, server), amboy.Middleware{})
				require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
				var committed error
				late := newJob(t, "late", func(ctx context.Context, j *funcJob) {
					session, err := server.Client().StartSession()
					if err == nil {
						err = session.StartTransaction()
					}
					if err == nil {
						err = q.(amboy.TransactionalCompleter).CompleteIn(mongo.NewSessionContext(ctx, session), j) //nolint:contextcheck // It inherits it.
					}
					if err != nil {
						j.AddError(err)
						return
					}
					ctx = context.WithoutCancel(ctx)
					time.AfterFunc(5*time.Second, func() {
						committed = session.CommitTransaction(ctx)
						session.EndSession(ctx)
					})
					returns(j)
				})
				late.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(2)})
				events, cancel, err := amboy.Subscribe(q, 100)
				require.NoError(t, err)
				defer cancel()
				lines := logged(t, func() {
					require.NoError(t, q.Put(t.Context(), late))
					require.True(t, amboy.WaitJob(t.Context(), late, q))
					require.True(t, amboy.Wait(t.Context(), q))
					synctest.Wait()
				}, "message", "job_id")
				require.NoError(t, committed)
				var kinds []amboy.EventKind
				for len(events) > 0 {
					kinds = append(kinds, (<-events).Kind)
				}
				assert.Contains(t, kinds, amboy.EventSucceeded)
				assert.NotContains(t, lines, "warning|job failed and will be retried|late")
				assert.NotContains(t, lines, "warning|job has not ended in its queue|late")
				stored, _ := q.Get(t.Context(), "late")
				assert.Equal(t, amboy.StateSucceeded, amboy.NewJobInfo(stored).State)
				assert.Equal(t, 1, stored.Status().ModificationCount, "it ran once")
			})
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
			onEachTransactional(t, func(t *testing.T, kind string) {
				x := &transactor{}
				var waited error
				x.run = func(ctx context.Context, tx ownTransaction) (string, error) {
					err := job.CompleteWithResultIn(ctx, "done")
					bounded, cancel := context.WithTimeout(ctx, 30*time.Second) // it would wait for its own transaction
					defer cancel()
					waited = report(bounded)
					return "", errors.Join(err, tx.Commit())
				}
				j, rows := runTransactional(t, kind, x)
				require.NoError(t, waited)
				require.NoError(t, j.Error())
				assert.Equal(t, 1, rows)
				assert.Equal(t, 1, x.runs)
			})
		})
	}
}

// The transaction of the job keeps the store from writing the line. The job must not wait until its
// lease is over.
func TestALineThatWasLoggedInATransactionOfTheJobWaitedForItsEnd(t *testing.T) {
	onEachTransactional(t, func(t *testing.T, kind string) {
		x := &transactor{}
		var waited error
		x.run = func(ctx context.Context, tx ownTransaction) (string, error) {
			bounded, cancel := context.WithTimeout(ctx, 30*time.Second) // it would wait for its own transaction
			defer cancel()
			job.Log(bounded, "inserted")
			waited = bounded.Err()
			return "", errors.Join(job.CompleteWithResultIn(ctx, "done"), tx.Commit())
		}
		j, rows := runTransactional(t, kind, x)
		require.NoError(t, waited)
		require.NoError(t, j.Error())
		assert.Equal(t, 1, rows)
		assert.Equal(t, 1, x.runs)
		require.Len(t, amboy.ProgressOf(j).Log, 1, "it is stored with the end of the job")
	})
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
	onEachTransactional(t, func(t *testing.T, kind string) {
		x := &transactor{}
		var without, foreign error
		x.run = func(ctx context.Context, tx ownTransaction) (string, error) {
			ctx = mongo.NewSessionContext(driver.WithTransaction(ctx, nil), nil)
			without = job.CompleteIn(ctx)                       //nolint:contextcheck // It inherits it.
			foreign = job.CompleteIn(postgres.WithTx(ctx, nil)) //nolint:contextcheck // It inherits it.
			return "done", tx.Rollback()
		}
		_, _ = runTransactional(t, kind, x)
		require.ErrorContains(t, without, "context carries no transaction of the store")
		require.ErrorIs(t, foreign, amboy.ErrForeignTransaction)
		require.ErrorIs(t, job.CompleteIn(t.Context()), job.ErrNoJob)
	})
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
	onEachTransactional(t, func(t *testing.T, kind string) {
		var saved error
		j, rows := runTransactional(t, kind, &transactor{run: func(ctx context.Context, tx ownTransaction) (string, error) {
			err := job.CompleteIn(ctx)
			saved = job.Checkpoint(ctx, struct{}{})
			return "", errors.Join(err, tx.Commit())
		}})
		require.ErrorContains(t, saved, "it may have ended in a transaction")
		assert.Equal(t, amboy.StateSucceeded, amboy.NewJobInfo(j).State)
		assert.Equal(t, 1, rows)
	})
}
