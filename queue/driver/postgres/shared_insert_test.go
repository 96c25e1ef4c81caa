package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/registry"
)

// insertOne inserts a record and returns its error.
func insertOne(ctx context.Context, d *postgres.Driver, id string) error {
	errs, err := d.Insert(ctx, []*driver.Record{newRecord(id)})
	return errors.Join(append(errs, err)...)
}

func TestConcurrentInsertsShareTransactions(t *testing.T) {
	d, sent := openTraced(t)
	insert(t.Context(), t, d, newRecord("the first")) // reads the queue and the line
	const all = 400
	fewest := int64(all)
	for try := 0; try < busyTries && fewest >= all/4; try++ { // inserts that wait for half a second go alone
		before := sent.Load()
		var calls sync.WaitGroup
		for i := range all {
			calls.Go(func() { assert.NoError(t, insertOne(t.Context(), d, fmt.Sprint(try, ".", i))) })
		}
		calls.Wait()
		fewest = min(fewest, sent.Load()-before)
	}
	assert.Less(t, fewest, int64(all/4))
}

// stuck keeps as many batches from being sent as tokens contains, until resume is closed.
type stuck struct {
	roundTrips
	tokens, batches, resume chan struct{}
	inserts                 sync.WaitGroup
}

func (s *stuck) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	select {
	case <-s.tokens:
		s.batches <- struct{}{}
		<-s.resume
	default:
	}
	return s.roundTrips.TraceBatchStart(ctx, conn, data)
}

// release lets the batches continue, and waits until the inserts that openStuck began have ended.
func (s *stuck) release() {
	close(s.resume)
	s.inserts.Wait()
}

// stuckInserts is the number of inserts that openStuck begins.
const stuckInserts = 2

// openStuck opens a driver and begins as many inserts as it writes at once. They are stuck until
// they are released.
func openStuck(t *testing.T) (*postgres.Driver, *stuck) {
	t.Helper()
	s := &stuck{tokens: make(chan struct{}, stuckInserts), batches: make(chan struct{}), resume: make(chan struct{})}
	d := openWith(t, s)
	insert(t.Context(), t, d, newRecord("the first")) // reads the queue and the line
	require.Len(t, claim(t, d, 1), 1)
	for i := range stuckInserts {
		s.tokens <- struct{}{}
		s.inserts.Go(func() { assert.NoError(t, insertOne(t.Context(), d, fmt.Sprint("stuck ", i))) })
		<-s.batches
	}
	return d, s
}

func TestInsertsGoOnBesideStuckConnections(t *testing.T) {
	d, s := openStuck(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, insertOne(ctx, d, "another"))
	given, give := context.WithCancel(t.Context())
	give()
	require.ErrorIs(t, insertOne(given, d, "given up"), context.Canceled)
	s.release()
	assert.Len(t, claim(t, d, 10), stuckInserts+1)
}

// A record whose ID is also inserted by another client's open transaction would delay the inserts
// that share its transaction.
func TestAnInsertThatWaitsForATransactionKeepsNoOthersWaiting(t *testing.T) {
	d, s := openStuck(t)
	conn, observer := connect(t, pgtest.URL(t)), connect(t, pgtest.URL(t))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, d, newRecord("contended"))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	waiting := make(chan error, 1)
	const others = 10
	var all sync.WaitGroup
	go func() { waiting <- insertOne(t.Context(), d, "contended") }()
	for i := range others {
		all.Go(func() { assert.NoError(t, insertOne(ctx, d, fmt.Sprint("other ", i))) })
	}
	s.release()
	all.Wait()
	awaitBlocked(t, observer, conn, 1)
	assert.Empty(t, waiting)
	require.NoError(t, tx.Rollback(t.Context()))
	assert.NoError(t, <-waiting)
	assert.Len(t, claim(t, d, 100), stuckInserts+others+1)
}

func TestInsertsOfLargeBodiesAreSpreadOverTransactions(t *testing.T) {
	d, s := openStuck(t)
	const records, size, most = 8, 400 << 10, 1 << 20
	before := s.Load()
	var all sync.WaitGroup
	for i := range records {
		r := newRecord(fmt.Sprint("large ", i))
		r.Job = registry.NewBody(bytes.Repeat([]byte{'x'}, size), false)
		all.Go(func() { insert(t.Context(), t, d, r) })
	}
	s.release()
	all.Wait()
	assert.GreaterOrEqual(t, s.Load()-before, int64(records*size/most))
	assert.Len(t, claim(t, d, 100), stuckInserts+records)
}

func TestEachOfConcurrentInsertsGetsItsOwnError(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, newRecord("job 0"))
	const ids, times = 20, 10
	var mu sync.Mutex
	accepted := map[string]int{}
	var calls sync.WaitGroup
	for i := range ids * times {
		calls.Go(func() {
			id := fmt.Sprint("job ", i%ids)
			if err := insertOne(t.Context(), d, id); err != nil {
				assert.True(t, amboy.IsDuplicateJobError(err), "%+v", err)
				assert.ErrorContains(t, err, id)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			accepted[id]++
		})
	}
	calls.Wait()
	assert.Len(t, accepted, ids-1)
	for id, n := range accepted {
		assert.Equal(t, 1, n, id)
	}
}

// A call may end while others still wait for the transaction that it shares with them.
func TestAnInsertThatIsGivenUpIsStoredOnlyIfItsErrorAllowsIt(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	insert(t.Context(), t, d, newRecord("the first"))
	const all = 1000
	var mu sync.Mutex
	stored, unknown := map[string]bool{"the first": true}, map[string]bool{}
	var calls sync.WaitGroup
	for i := range all {
		patience := time.Duration(rand.Int64N(int64(300 * time.Millisecond)))
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			id := fmt.Sprint(i)
			err := insertOne(ctx, d, id)
			assert.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%+v", err)
			mu.Lock()
			defer mu.Unlock()
			stored[id], unknown[id] = err == nil, errors.Is(err, driver.ErrOutcomeUnknown)
		})
	}
	calls.Wait()
	require.NoError(t, d.Close(t.Context())) // after the transactions that nobody waits for

	found := map[string]bool{}
	for _, id := range idsOf(claim(t, open(t, opts), all+1)) {
		found[id] = true
	}
	accepted, left := 0, 0
	for id := range stored {
		if unknown[id] {
			left++
			continue
		}
		assert.Equal(t, stored[id], found[id], id)
		if stored[id] {
			accepted++
		}
	}
	t.Logf("%d accepted, %d of unknown outcome", accepted, left)
}

// The caller of an insert whose commit got no answer was told that the driver was closed, as if the
// job had certainly not been stored.
func TestAClosedDriverHidThatTheOutcomeOfAnInsertIsUnknown(t *testing.T) {
	stores := newStores(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := stores.open(t, schema).(*postgres.Driver)
	_, err := stores.direct.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION %[1]s.delay() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER delay AFTER INSERT ON %[1]s.jobs DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION %[1]s.delay()`, schema))
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() { result <- insertOne(t.Context(), d, "one") }()
	require.Eventually(t, func() bool {
		var sleeping int
		failure := stores.direct.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").Scan(&sleeping)
		return assert.NoError(t, failure) && sleeping > 0
	}, time.Minute, 10*time.Millisecond)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Close(ended), context.Canceled)
	stores.of(d).wire.cut()
	require.ErrorIs(t, <-result, driver.ErrOutcomeUnknown)
	// Its snapshot would keep dead rows of other tests from being removed.
	_, err = stores.direct.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE relation = $1::regclass AND pid <> pg_backend_pid()", schema+".jobs")
	require.NoError(t, err)
}
