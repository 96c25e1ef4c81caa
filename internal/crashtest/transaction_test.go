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

	"github.com/mongodb/amboy"
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
	db     *sql.DB
	conn   *pgx.Conn // of PostgreSQL, where each second transaction is one of pgx
	rows   string    // the name of the table
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
	l := &ledger{rows: rowsOf(s), random: rand.New(rand.NewPCG(seed, 0))}
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

// rowsOf is the table of rows: one beside the tables of the queue.
func rowsOf(s store) string {
	if s.Schema == "" {
		return "ledger"
	}
	return s.Schema + ".ledger"
}

// begin begins a transaction. ctx carries it.
func (l *ledger) begin(ctx context.Context) (inTx context.Context, exec func(string) error, commit, rollback func() error, err error) {
	if l.conn != nil && l.random.IntN(2) == 0 {
		tx, beginErr := l.conn.Begin(ctx)
		if beginErr != nil {
			return nil, nil, nil, nil, beginErr
		}
		exec = func(text string) error {
			_, execErr := tx.Exec(ctx, text)
			return execErr
		}
		return postgres.WithTx(ctx, tx), exec, func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }, nil
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	inTx = sqlite.WithTx(ctx, tx)
	if l.conn != nil {
		inTx = postgres.WithSQLTx(ctx, tx)
	}
	exec = func(text string) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
	return inTx, exec, tx.Commit, tx.Rollback, nil
}

var errRolledBack = errors.New("the job has rolled back")

// end writes a row and ends its job, and commits that or rolls it back.
func (l *ledger) end(ctx context.Context, id string) error {
	inTx, exec, commit, rollback, err := l.begin(ctx)
	if err != nil {
		return err
	}
	plan := l.random.IntN(24)
	dieIf(plan == 0)
	err = exec(fmt.Sprintf("INSERT INTO %s (job) VALUES ('%s')", l.rows, id))
	if err == nil {
		err = job.CompleteIn(inTx)
	}
	dieIf(plan == 1)
	if err != nil {
		return errors.Join(err, rollback())
	}
	switch plan {
	case 2, 3, 4:
		// While it commits.
		time.AfterFunc(time.Duration(l.random.IntN(1000))*time.Microsecond, func() { dieIf(true) })
	case 5:
		return rollback()
	case 6:
		return errors.Join(errRolledBack, rollback())
	}
	err = commit()
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
		if s.Database != "" {
			t.Skip("the store can't end jobs in a transaction")
		}
		testEndsInTransactions(t, s)
	})
}

func testEndsInTransactions(t *testing.T, s store) {
	t.Logf("-crashtest.seed=%d -crashtest.endkills=%d", *seed, *endKills)
	q := newTransactionQueue(t, s, 1) // which is not started
	defer closeQueue(t, q)
	l := openLedger(t, s, *seed)
	_, err := l.db.ExecContext(t.Context(), "CREATE TABLE "+l.rows+" (job TEXT NOT NULL)")
	require.NoError(t, err)

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
	assert.NotZero(t, states[amboy.StateFailed])
	t.Logf("%d processes killed; %v", killed, states)
}

func newTransactionJob(t *testing.T, n int) amboy.Job {
	t.Helper()
	id := fmt.Sprint("job-", n)
	options := []job.Option{job.ID(id)}
	if n%4 == 0 {
		options = append(options, job.Scopes(fmt.Sprint("scope-", n%3)))
	}
	j, err := endInTransaction.New(id, options...)
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
	found, err := l.db.QueryContext(t.Context(), "SELECT job FROM "+l.rows)
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
