package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func inQueue(queue string, r *driver.Record) *driver.Record {
	r.Group, r.Name = queue, driver.RecordName(queue, r.Name, r.RetryInfo)
	return r
}

func beginTx(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := connect(t, pgtest.URL(t)).Begin(t.Context())
	require.NoError(t, err)
	return tx
}

// busyTries is how often a call is made until it ends within the time that it must not exceed, because a busy machine
// may stand still during some.
const busyTries = 10

// An open transaction puts a job that depends on several of the running jobs. The search for their
// leases took longer than the core waits for a renewal, so none of the others counted as renewed.
func TestAFanInInAnOpenTransactionKeepsNoOtherLeasesFromBeingRenewed(t *testing.T) {
	for name, test := range map[string]struct {
		limit                  time.Duration
		running, blocked, step int
	}{
		"5 s, 24 of 192 are blocked": {5 * time.Second, 192, 24, 8},
		"2 s, 4 of 64 are blocked":   {2 * time.Second, 64, 4, 16},
	} {
		t.Run(name, func(t *testing.T) {
			opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
			d := open(t, opts)
			var records []*driver.Record
			for i := range test.running {
				records = append(records, newRecord(fmt.Sprintf("%03d", i)))
			}
			insert(t.Context(), t, d, records...)
			running := claim(t, d, test.running)
			require.Len(t, running, test.running)
			var leases, others []driver.Lease
			var on []string
			for i, r := range running {
				leases = append(leases, driver.LeaseOf(r))
				if i%test.step == 0 && len(on) < test.blocked {
					on = append(on, r.JobID())
				} else {
					others = append(others, driver.LeaseOf(r))
				}
			}
			tx := beginTx(t)
			insert(postgres.WithTx(t.Context(), tx), t, d, dependent("fan-in", on...))
			var blocked *driver.BlockedLeasesError
			var err error
			for try := 0; try < busyTries && blocked == nil; try++ {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				_, err = open(t, opts).Extend(ctx, leases, time.Minute) // a new driver remembers no wait
				cancel()
				errors.As(err, &blocked)
			}
			require.NotNil(t, blocked, "none of the other %d leases counts as renewed: %v", len(others), err)
			assert.Len(t, blocked.Leases, test.blocked)
		})
	}
}

// A claim takes jobs of a queue that has only a rate under the lock of that queue, for which it waited
// without a bound.
func TestAnOpenTransactionInARatedQueueKeepsNoOtherQueueWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	insert(t.Context(), t, d, inQueue("blocked", newRecord("rated")))
	_, err := d.Control(t.Context(), "blocked", driver.ControlChange{Rate: &amboy.Rate{PerSecond: 1000, Burst: 10}})
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, inQueue("blocked", scoped("in it", 0, "scope")))
	claimsInTime(t, opts, time.Now(), newRecord, "blocked", "other")
}

// After the clock of the server was set back, a claim resets the buckets of types under the lock of their queue.
func TestAnOpenTransactionKeptOtherQueuesWaitingAfterTheClockWasSetBack(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	insert(t.Context(), t, d, inQueue("blocked", newRecord("rated")))
	_, err := d.Control(t.Context(), "blocked", driver.ControlChange{
		Type: &driver.TypeChange{Type: "test", Limit: amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: 1000, Burst: 10}}},
	})
	require.NoError(t, err)
	execute(t, connect(t, opts.URL), fmt.Sprintf(`UPDATE %s.queues SET type_buckets = '{"test":%d}' WHERE name = 'blocked'`,
		opts.Schema, time.Now().Add(time.Hour).UnixNano()))
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, inQueue("blocked", scoped("in it", 0, "scope")))
	claimsInTime(t, opts, time.Now(), newRecord, "blocked", "other")
}

// claimsInTime tests that a claim from queues, of which the last is other, takes a new record of that within the time
// that the core gives a claim, although another queue is locked.
func claimsInTime(t *testing.T, opts postgres.Options, now time.Time, made func(id string) *driver.Record, queues ...string) {
	t.Helper()
	var demands []driver.Demand
	for _, queue := range queues {
		demands = append(demands, driver.Demand{Queue: queue, Limit: 10})
	}
	var took time.Duration
	var err error
	for try := range busyTries {
		d := open(t, opts) // a new driver remembers no wait
		id := fmt.Sprint("ready ", try)
		insert(t.Context(), t, d, inQueue("other", made(id)))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // as the core's callLimit
		began := time.Now()
		var claimed driver.Claimed
		claimed, err = d.Claim(ctx, driver.ClaimRequest{Owner: "owner", Queues: demands, Limit: 20, Now: now, LeaseTime: time.Minute})
		took = time.Since(began)
		cancel()
		if err == nil && took < 4*time.Second {
			assert.Contains(t, idsOf(claimed.Records), id)
			for _, r := range claimed.Records {
				assert.Equal(t, "other", r.Group)
			}
			return
		}
	}
	require.NoError(t, err)
	assert.Fail(t, "no claim ended in time", "the last one took %s", took)
}

// What a transaction left for later in one queue was not done while another queue was locked, whose
// leftovers came first.
func TestAnOpenTransactionKeepsNoLeftoversOfOtherQueuesWaiting(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	const dependents = 400 // more than the 128 edges that one transaction ends
	for _, queue := range []string{"a", "b"} {
		insert(t.Context(), t, d, inQueue(queue, newRecord("target")))
		var all []*driver.Record
		for i := range dependents {
			all = append(all, inQueue(queue, dependent(fmt.Sprint(queue, i), "target")))
		}
		insert(t.Context(), t, d, all...)
	}
	demands := []driver.Demand{{Queue: "a", Limit: 1000}, {Queue: "b", Limit: 1000}}
	claimBoth := func() driver.Claimed {
		claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: "owner", Queues: demands, Limit: 2000, Now: time.Now(), LeaseTime: time.Minute})
		require.NoError(t, err)
		return claimed
	}
	targets := claimBoth().Records
	require.Len(t, targets, 2)
	for _, r := range targets {
		end(t.Context(), t, d, r, "")
	}
	tx := beginTx(t)
	insert(postgres.WithTx(t.Context(), tx), t, d, inQueue("a", scoped("in it", 0, "scope")))

	inB := 0
	for range 20 {
		claimed := claimBoth()
		for _, r := range claimed.Records {
			if r.Group == "b" {
				inB++
			}
		}
		assert.False(t, claimed.Next.IsZero(), "leftovers are left, and no claim is requested")
	}
	assert.Equal(t, dependents, inB)
	require.NoError(t, tx.Rollback(t.Context()))
}

// A wait for a lock that ended in vain closed the connection, because BEGIN was sent with it. Each claim
// waited four times.
func TestAClaimThatLeavesOutALockedQueueKeepsItsConnections(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t), PollOnly: true})
	insert(t.Context(), t, d, scoped("scoped", 0, "scope"))
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, scoped("in it", 0, "another"))
	before := pool.Stat().NewConnsCount()
	for range 10 {
		records, _ := claimAt(t, d, 10, time.Now())
		require.Empty(t, records)
	}
	assert.LessOrEqual(t, pool.Stat().NewConnsCount()-before, int64(2))
}

// breaking makes the transactions after the first ones fail.
type breaking struct {
	roundTrips
	armed atomic.Bool
	left  atomic.Int64
}

func (b *breaking) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if b.armed.Load() && begins(data) && b.left.Add(-1) < 0 {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return ended
	}
	return ctx
}

// The core drops an end or a hand-back whose own error is not repeatable. That of a call which failed
// after its first part was not.
func TestAReleaseThatFailsInPartCanBeRepeated(t *testing.T) {
	for _, doing := range []string{"complete", "release"} {
		t.Run(doing, func(t *testing.T) {
			b := &breaking{}
			d := openWith(t, b)
			insert(t.Context(), t, d, inQueue("a", scoped("job", 0, "s")), inQueue("b", scoped("job", 0, "s")))
			claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
				Owner: "owner", Queues: []driver.Demand{{Queue: "a", Limit: 1}, {Queue: "b", Limit: 1}}, Limit: 2, Now: time.Now(), LeaseTime: time.Minute,
			})
			require.NoError(t, err)
			require.Len(t, claimed.Records, 2)
			b.left.Store(1)
			b.armed.Store(true)
			var errs []error
			if doing == "release" {
				errs, err = d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(claimed.Records[0])}, {Lease: driver.LeaseOf(claimed.Records[1])}})
			} else {
				var all []driver.Completion
				for _, r := range claimed.Records {
					lease := driver.LeaseOf(r)
					r.Status.Completed, r.Status.InProgress = true, false
					all = append(all, driver.Completion{Lease: lease, Record: r})
				}
				errs, err = d.Complete(t.Context(), all)
			}
			b.armed.Store(false)
			require.NoError(t, err)
			require.NoError(t, errs[0])
			require.Error(t, errs[1])
			assert.True(t, driver.IsRepeatable(errs[1]), "the core drops it: %v", errs[1])
		})
	}
}

// Two clients acknowledged a job with one token at a time, and all ends of the call were refused.
func TestTheSameEndTwiceFailsNoOthers(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, attemptOf("twice", 0), attemptOf("once", 0))
	var all []driver.Completion
	for _, r := range claim(t, d, 2) {
		id := r.RetryInfo.BaseJobID
		lease := driver.LeaseOf(r)
		r.Status.Completed, r.Status.InProgress = true, false
		all = append(all, driver.Completion{Lease: lease, Record: r, Next: attemptOf(id, 1)})
		if id == "twice" {
			all = append(all, driver.Completion{Lease: lease, Record: r, Next: attemptOf(id, 1)})
		}
	}
	errs, err := d.Complete(t.Context(), all)
	require.NoError(t, err)
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	assert.LessOrEqual(t, failed, 1)
}

// While a queue is locked, each claim waited for it four times, with the leases of the other queues
// already taken.
func TestClaimsOfOtherQueuesStayFastWhileAQueueIsLocked(t *testing.T) {
	const limit = 100 * time.Millisecond
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, inQueue("blocked", scoped("scoped", 0, "scope")))
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, inQueue("blocked", scoped("in it", 0, "another")))
	took := time.Hour
	end := time.Now().Add(time.Minute)
	for i := 0; took >= limit && time.Now().Before(end); i++ { // a busy machine is slow during some
		insert(t.Context(), t, d, inQueue("other", newRecord(fmt.Sprint(i))))
		began := time.Now()
		claimed, err := d.Claim(patience(t), driver.ClaimRequest{
			Owner: "owner", Queues: []driver.Demand{{Queue: "blocked", Limit: 1}, {Queue: "other", Limit: 1}}, Limit: 2, Now: time.Now(), LeaseTime: time.Minute,
		})
		took = time.Since(began)
		require.NoError(t, err)
		assert.Len(t, claimed.Records, 1)
	}
	assert.Less(t, took, limit)
}

// Due records become ready in a statement that waited without a bound for the row of their line, which
// a caller's open transaction that ended a job may have changed.
func TestAnOpenTransactionThatEndsAJobKeepsNoDueJobsOfOtherQueuesWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d, conn := open(t, opts), connect(t, opts.URL)
	insert(t.Context(), t, d, newRecord("target"))
	target := claim(t, d, 1)[0]
	due := newRecord("due")
	due.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, dependent("dependent", "target"), due)
	var all []*driver.Record
	for i := range 900 {
		all = append(all, newRecord(fmt.Sprint(i)))
	}
	insert(t.Context(), t, d, all...)
	require.Eventually(t, func() bool { // the floor of the line is above the records before
		claim(t, d, 100)
		var low, seq int64
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT max(low) FROM "+opts.Schema+".lines").Scan(&low))
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT seq FROM "+opts.Schema+".jobs WHERE job_id = 'due'").Scan(&seq))
		return low > seq
	}, 10*time.Second, 50*time.Millisecond)

	tx := beginTx(t)
	end(postgres.WithTx(t.Context(), tx), t, d, target, "")
	otherDue := func(id string) *driver.Record {
		r := newRecord(id)
		r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
		return r
	}
	claimsInTime(t, opts, time.Now().Add(2*time.Hour), otherDue, "other")
}

// After one wait in vain, claims waited 50 ms for the lock of the queue, and each failure renewed that.
// Puts of scoped jobs wait without a bound, and locks are given in the order of the requests, so claims
// got nothing while several processes put such jobs, long after the transaction had ended.
func TestClaimsGetTheLockOfABusyQueueAfterATransactionHeldIt(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	insert(t.Context(), t, d, scoped("first", 0, "first"))
	ctx, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	defer producers.Wait()
	defer stop()
	for p := range 4 {
		producer := open(t, opts) // another process
		producers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var all []*driver.Record
				for n := range 32 {
					id := fmt.Sprint(p, ".", i, ".", n)
					all = append(all, scoped(id, 0, id))
				}
				_, _ = producer.Insert(ctx, all) // until ctx ends
			}
		})
	}
	claimOnce := func() int {
		claimed, err := d.Claim(patience(t), driver.ClaimRequest{
			Owner: "owner", Queues: []driver.Demand{{Limit: 10}}, Limit: 10, Now: time.Now(), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		return len(claimed.Records)
	}
	tx := beginTx(t)
	insert(postgres.WithTx(t.Context(), tx), t, d, scoped("in it", 0, "in it"))
	claimOnce()
	require.NoError(t, tx.Rollback(t.Context()))
	const fewTries = 500 // in a minute, as on a machine that stands still now and then
	end, tries := time.Now().Add(time.Minute), 0
	for got := 0; got < 20; got += claimOnce() {
		tries++
		require.True(t, tries < fewTries || time.Now().Before(end), "%d claims got %d jobs", tries, got)
	}
	t.Logf("%d claims", tries)
}

// Stale jobs of a locked queue were tried 16 at a time, with a wait for each, before those of other queues.
func TestManyStaleJobsOfALockedQueueKeepNoOtherQueueWaiting(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	const stale = 3500
	var all []*driver.Record
	for i := range stale {
		all = append(all, inQueue("a", newRecord(fmt.Sprint(i))))
	}
	insert(t.Context(), t, d, all...)
	insert(t.Context(), t, d, inQueue("b", newRecord("stale")))
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Queue: "a", Limit: stale}, {Queue: "b", Limit: 1}}, Limit: stale + 1, Now: time.Now(), LeaseTime: time.Nanosecond,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, stale+1)
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, inQueue("a", scoped("in it", 0, "scope")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // dutyLimit
	defer cancel()
	recovered, err := d.RecoverStale(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, recovered)
}

// A Put that depends on a job waits for an open transaction that ends that job, and so does an operator's action on it.
// They had the lock of the queue meanwhile, so all that needs it waited too.
func TestAChangeThatWaitedForAnOpenTransactionKeptItsQueueLocked(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, d *postgres.Driver) error{
		"a put": func(ctx context.Context, d *postgres.Driver) error {
			errs, err := d.Insert(ctx, []*driver.Record{dependent("dependent", "ended")})
			return errors.Join(append(errs, err)...)
		},
		"a cancellation": func(ctx context.Context, d *postgres.Driver) error {
			_, err := d.Act(ctx, driver.ActRequest{Query: driver.Query{ID: "ended"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
			d := open(t, opts)
			insert(t.Context(), t, d, newRecord("ended"))
			ended := claim(t, d, 1)[0]
			tx := beginTx(t)
			end(postgres.WithTx(t.Context(), tx), t, d, ended, "")
			result := make(chan error, 1)
			go func() { result <- change(patience(t), d) }()
			awaitWaiting(t, opts.Schema, 1)
			insert(patience(t), t, d, scoped("another", 0, "scope"))
			// If the first change had the lock now, the server would end this transaction.
			insert(postgres.WithTx(t.Context(), tx), t, d, scoped("in it", 0, "scope in it"))
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-result)
		})
	}
}

// A Put in an open transaction that depends on jobs which have ended keeps these from being removed, and kept all others
// too, of whichever queue.
func TestAnOpenTransactionKeptAllEndedJobsFromBeingRemoved(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	for _, queue := range []string{"a", "b"} {
		insert(t.Context(), t, d, inQueue(queue, newRecord("ended")))
		claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
			Owner: "owner", Queues: []driver.Demand{{Queue: queue, Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		r := claimed.Records[0]
		r.ForgetAt = time.Now().Add(-time.Hour)
		end(t.Context(), t, d, r, "")
	}
	tx := beginTx(t)
	insert(postgres.WithTx(t.Context(), tx), t, d, inQueue("a", dependent("dependent", "ended")))
	for _, wanted := range []int{1, 0} {
		forgotten, err := d.Forget(patience(t), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, wanted, forgotten)
	}
	require.NoError(t, tx.Commit(t.Context()))
	forgotten, err := d.Forget(patience(t), time.Now(), 10)
	require.NoError(t, err)
	assert.Equal(t, 1, forgotten)
}

// The transactions of callers may hold all connections of the pool. The end of a job of a queue that the process has not
// used yet needed another one.
func TestAJobOfAnotherProcessDidNotEndInATransactionOnTheOnlyConnection(t *testing.T) {
	schema := pgtest.Schema(t)
	other := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	insert(t.Context(), t, other, newRecord("job"))
	r := claim(t, other, 1)[0]
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: schema})
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // unless it was committed
	end(postgres.WithTx(patience(t), tx), t, d, r, "")
	require.NoError(t, tx.Commit(t.Context()))
	got, err := d.Get(t.Context(), "", "job")
	require.NoError(t, err)
	assert.True(t, got.Status.Completed)
}

// After the clock of the server was set back, a recovery lets the leases that seem to last too long begin now. It waited
// for a job that an open transaction had ended, and recovered none of the leases that had run out.
func TestAnOpenTransactionKeptStaleJobsFromBeingRecoveredAfterTheClockWasSetBack(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d, conn := open(t, opts), connect(t, opts.URL)
	insert(t.Context(), t, d, newRecord("ended"))
	ended := claim(t, d, 1)[0]
	execute(t, conn, "UPDATE "+opts.Schema+".jobs SET lease_until = lease_until + 3600000000000")
	execute(t, conn, "UPDATE "+opts.Schema+".leases SET until = until + 3600000000000, taken = taken + 3600000000000")
	insert(t.Context(), t, d, newRecord("stale"))
	_, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Nanosecond,
	})
	require.NoError(t, err)
	tx := beginTx(t)
	end(postgres.WithTx(t.Context(), tx), t, d, ended, "")
	recovered, err := d.RecoverStale(patience(t))
	require.NoError(t, err)
	assert.Equal(t, 1, recovered)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = d.RecoverStale(patience(t))
	require.NoError(t, err)
	var ahead bool
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT max(lease_until) > (extract(epoch FROM clock_timestamp()) + 600) * 1000000000 FROM "+
		opts.Schema+".jobs WHERE place = 6").Scan(&ahead))
	assert.False(t, ahead, "the lease still seems to last too long")
}
