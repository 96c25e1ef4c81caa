package crashtest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var endKills = flag.Int("crashtest.endkills", 6, "how many processes are killed around a commit by TestEndsInTransactions")

// transactionLease is the lock timeout of the queues of TestEndsInTransactions.
const transactionLease = time.Second / 2

// transactionConfig is what a process of TestEndsInTransactions is told.
type transactionConfig struct {
	Store store
	Seed  uint64
}

const transactionVariable = "CRASHTEST_TRANSACTION"

// ledger is where the jobs of a process keep rows of their own, in the database of its queue.
type ledger struct {
	db     *sql.DB           // nil in MongoDB
	conn   *pgx.Conn         // of PostgreSQL, where each second transaction is one of pgx
	table  string            // the name of the table
	own    *mongo.Collection // of MongoDB, in place of a table
	random *rand.Rand
}

// theLedger is that of this process, which runs one job at a time.
var theLedger *ledger

// endInTransaction ends its job in a transaction with a row of its own, and is killed now and
// then.
var endInTransaction = job.Define("crashtest.transaction", 1, func(ctx context.Context, id string) error {
	return theLedger.end(ctx, id)
})

func openLedger(t *testing.T, s store, seed uint64) *ledger {
	t.Helper()
	l := &ledger{table: tableOf(s), random: rand.New(rand.NewPCG(seed, 0))}
	if s.Database != "" {
		client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(s.Location))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
		l.own = client.Database(s.Database).Collection(l.table)
		return l
	}
	var err error
	if s.Schema == "" {
		l.db, err = sql.Open("sqlite", s.Location+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	} else {
		l.db, err = sql.Open("pgx", s.Location)
		if err == nil {
			l.conn, err = pgx.Connect(t.Context(), s.Location)
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, l.db.Close())
		if l.conn != nil {
			assert.NoError(t, l.conn.Close(context.Background()))
		}
	})
	return l
}

// tableOf is the table of rows: one beside the tables of the queue.
func tableOf(s store) string {
	if s.Schema == "" {
		return "ledger"
	}
	return s.Schema + ".ledger"
}

// create creates the table, or the collection: transactions that create one conflict with each other.
func (l *ledger) create(ctx context.Context) error {
	if l.own != nil {
		return l.own.Database().CreateCollection(ctx, l.own.Name())
	}
	_, err := l.db.ExecContext(ctx, "CREATE TABLE "+l.table+" (job TEXT NOT NULL)")
	return err
}

// ownTransaction is a transaction of a job.
type ownTransaction struct {
	context.Context                        // carries the transaction
	insert           func(id string) error // a row
	commit, rollback func() error
}

// begin begins a transaction.
func (l *ledger) begin(ctx context.Context) (*ownTransaction, error) {
	switch {
	case l.own != nil:
		return l.beginSession(ctx)
	case l.conn != nil && l.random.IntN(2) == 0:
		tx, err := l.conn.Begin(ctx)
		if err != nil {
			return nil, err
		}
		return &ownTransaction{
			Context: postgres.WithTx(ctx, tx),
			insert: func(id string) error {
				_, err := tx.Exec(ctx, l.insertion(id))
				return err
			},
			commit:   func() error { return tx.Commit(ctx) },
			rollback: func() error { return tx.Rollback(ctx) },
		}, nil
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	inTx := sqlite.WithTx(ctx, tx)
	if l.conn != nil {
		inTx = postgres.WithSQLTx(ctx, tx)
	}
	return &ownTransaction{
		Context: inTx,
		insert: func(id string) error {
			_, err := tx.ExecContext(ctx, l.insertion(id))
			return err
		},
		commit:   tx.Commit,
		rollback: tx.Rollback,
	}, nil
}

func (l *ledger) insertion(id string) string {
	return fmt.Sprintf("INSERT INTO %s (job) VALUES ('%s')", l.table, id)
}

// beginSession is begin in MongoDB.
func (l *ledger) beginSession(ctx context.Context) (*ownTransaction, error) {
	session, err := l.own.Database().Client().StartSession()
	if err != nil {
		return nil, err
	}
	err = session.StartTransaction(options.Transaction().SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return nil, err
	}
	inTx := mongo.NewSessionContext(ctx, session)
	return &ownTransaction{
		Context: inTx,
		insert: func(id string) error { //nolint:contextcheck // It inherits it.
			_, err := l.own.InsertOne(inTx, bson.D{{Key: "job", Value: id}})
			return err
		},
		commit: func() error {
			defer session.EndSession(ctx)
			return session.CommitTransaction(ctx)
		},
		rollback: func() error {
			defer session.EndSession(ctx)
			return session.AbortTransaction(ctx)
		},
	}, nil
}

var errRolledBack = errors.New("the job has rolled back")

// end writes a row and ends its job, and commits that or rolls it back.
func (l *ledger) end(ctx context.Context, id string) error {
	tx, err := l.begin(ctx)
	if err != nil {
		return err
	}
	plan := l.random.IntN(24)
	dieIf(plan == 0)
	err = tx.insert(id)
	if err == nil {
		err = job.CompleteIn(tx) //nolint:contextcheck // It inherits it.
	}
	dieIf(plan == 1)
	if err != nil {
		return errors.Join(err, tx.rollback())
	}
	switch plan {
	case 2, 3, 4:
		// While it commits.
		time.AfterFunc(time.Duration(l.random.IntN(1000))*time.Microsecond, func() { dieIf(true) })
	case 5:
		return tx.rollback()
	case 6:
		return errors.Join(errRolledBack, tx.rollback())
	}
	err = tx.commit()
	dieIf(plan == 7)
	if plan == 8 {
		return errRolledBack // a lie
	}
	return err
}

// dieIf kills this process if a condition holds.
func dieIf(now bool) {
	if !now {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		err = self.Kill()
		if err != nil {
			panic(err) // Any end will do.
		}
	}
	select {}
}

// TestTransactionWorker is what the processes run that kill themselves.
func TestTransactionWorker(t *testing.T) {
	encoded := os.Getenv(transactionVariable)
	if encoded == "" {
		t.Skip("it is run by another test")
	}
	var config transactionConfig
	require.NoError(t, json.Unmarshal([]byte(encoded), &config))
	theLedger = openLedger(t, config.Store, config.Seed)
	if theLedger.own != nil { // a transaction of another client is foreign
		config.Store.connect = func(*testing.T, string) *mongo.Client { return theLedger.own.Database().Client() }
	}
	q := newTransactionQueue(t, config.Store, 1)
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	fmt.Println(saysReady)
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	closeQueue(t, q)
}

func newTransactionQueue(t *testing.T, s store, workers int) amboy.RetryableQueue {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: s.open(t), CloseDriver: true, NumWorkers: workers, LockTimeout: transactionLease,
		Retryable: queue.RetryableQueueOptions{MaxInterruptions: 1_000_000},
	})
	require.NoError(t, err)
	return q
}

// TestEndsInTransactions lets jobs end in transactions of their own, in processes that are
// killed around the commit. A job must have succeeded if, and only if, its row exists, once.
func TestEndsInTransactions(t *testing.T) {
	onEachStore(t, func(t *testing.T, newStore func(*testing.T) store) {
		s := newStore(t)
		switch {
		case s.Database != "" && !endsInTransactions(t, s):
			t.Skip("a standalone server has no transactions")
		case s.Database != "":
			s.endTransactionsSoon(t)
		}
		testEndsInTransactions(t, s)
	})
}

func endsInTransactions(t *testing.T, s store) bool {
	t.Helper()
	d := s.open(t)
	defer func() { require.NoError(t, d.Close(context.WithoutCancel(t.Context()))) }()
	return d.Features().TransactionalEnds
}

// endTransactionsSoon makes the server of a database abort the transactions of killed processes after a
// second instead of a minute, until the test ends. On a real server, other tests may have transactions.
func (s store) endTransactionsSoon(t *testing.T) {
	t.Helper()
	lifetime := int32(1)
	if os.Getenv(mongotest.URIVariable) != "" {
		lifetime = 10
	}
	client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(s.Location))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	set := func(ctx context.Context, seconds int32) (was int32) {
		answer, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: seconds}}).Raw()
		require.NoError(t, err)
		return answer.Lookup("was").Int32()
	}
	was := set(t.Context(), lifetime)
	t.Cleanup(func() { set(context.Background(), was) })
}

func testEndsInTransactions(t *testing.T, s store) {
	t.Logf("-crashtest.seed=%d -crashtest.endkills=%d", *seed, *endKills)
	q := newTransactionQueue(t, s, 1) // which is not started
	defer closeQueue(t, q)
	l := openLedger(t, s, *seed)
	require.NoError(t, l.create(t.Context()))

	jobs, killed, turn := 0, 0, uint64(0)
	for killed < *endKills {
		var list []amboy.Job
		for range 24 * processes {
			list = append(list, newTransactionJob(t, jobs))
			jobs++
		}
		require.NoError(t, q.PutMany(t.Context(), list))
		killed += drain(t, s, q, &turn)
	}
	rows := countRows(t, l)
	states := map[amboy.JobState]int{}
	for i := range jobs {
		id := fmt.Sprint("job-", i)
		j, found := q.Get(t.Context(), id)
		require.True(t, found, id)
		state := amboy.NewJobInfo(j).State
		states[state]++
		want := 0
		if state == amboy.StateSucceeded {
			want = 1
		}
		assert.Equal(t, want, rows[id], "rows of job %s, which %s: %v", id, state, j.Error())
	}
	assert.Equal(t, jobs, states[amboy.StateSucceeded]+states[amboy.StateFailed])
	assert.NotZero(t, states[amboy.StateSucceeded])
	assert.NotZero(t, states[amboy.StateFailed])
	t.Logf("%d processes killed; %v", killed, states)
}

func newTransactionJob(t *testing.T, n int) amboy.Job {
	t.Helper()
	id := fmt.Sprint("job-", n)
	opts := []job.Option{job.ID(id)}
	if n%4 == 0 {
		opts = append(opts, job.Scopes(fmt.Sprint("scope-", n%3)))
	}
	j, err := endInTransaction.New(id, opts...)
	require.NoError(t, err)
	return j
}

// drain keeps processes running until all jobs have ended, and counts how many were killed.
func drain(t *testing.T, s store, q amboy.Queue, turn *uint64) (killed int) {
	t.Helper()
	idle := make(chan bool, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { idle <- amboy.Wait(ctx, q) }()
	exited := make(chan *process)
	live := map[*process]bool{}
	start := func() {
		*turn++
		encoded, err := json.Marshal(transactionConfig{Store: s, Seed: *seed<<32 + *turn})
		require.NoError(t, err)
		p, err := startProcess(t, fmt.Sprint("transactions-", *turn), "TestTransactionWorker", transactionVariable+"="+string(encoded), nil)
		require.NoError(t, err)
		t.Cleanup(p.kill)
		live[p] = true
		go func() {
			<-p.exited
			exited <- p
		}()
	}
	for range processes {
		start()
	}
	for {
		select {
		case <-idle:
			for p := range live {
				require.NoError(t, p.stdin.Close())
			}
			for range live {
				if p := <-exited; p.exit != nil { // in its last job
					requireKilled(t, p)
					killed++
				}
			}
			return killed
		case p := <-exited:
			requireKilled(t, p)
			killed++
			delete(live, p)
			start()
		}
	}
}

func requireKilled(t *testing.T, p *process) {
	t.Helper()
	require.ErrorContains(t, p.exit, "killed", "%s", &p.output)
}

// countRows counts the rows of each job.
func countRows(t *testing.T, l *ledger) map[string]int {
	t.Helper()
	if l.own != nil {
		return l.countDocuments(t)
	}
	found, err := l.db.QueryContext(t.Context(), "SELECT job FROM "+l.table)
	require.NoError(t, err)
	defer func() { assert.NoError(t, found.Close()) }()
	rows := map[string]int{}
	for found.Next() {
		var id string
		require.NoError(t, found.Scan(&id))
		rows[id]++
	}
	require.NoError(t, found.Err())
	return rows
}

// countDocuments is countRows in MongoDB.
func (l *ledger) countDocuments(t *testing.T) map[string]int {
	t.Helper()
	cursor, err := l.own.Find(t.Context(), bson.D{})
	require.NoError(t, err)
	var found []struct{ Job string }
	require.NoError(t, cursor.All(t.Context(), &found))
	rows := map[string]int{}
	for _, row := range found {
		rows[row.Job]++
	}
	return rows
}
