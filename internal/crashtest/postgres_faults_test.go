package crashtest_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
)

var (
	serverKills  = flag.Int("crashtest.serverkills", 2, "how often TestPostgresServerDies kills and restarts the server")
	terminations = flag.Int("crashtest.terminations", 40, "how many connections TestPostgresConnectionsAreCut cuts")
)

// TestPostgresServerDies runs a plan on two queues while all processes of the server are killed
// again and again, and it is started again after a while.
func TestPostgresServerDies(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	pgtest.URL(t) // skips the test if there is no server
	// What it has written is safe with the system, which goes on. It need not wait for the disk.
	server, err := pgtest.Start(pgtest.Options{Durable: true, Settings: []string{"fsync=off"}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Stop()) }()
	t.Logf("-crashtest.seed=%d -crashtest.serverkills=%d", *seed, *serverKills)
	const between, downFor = 700 * time.Millisecond, 400 * time.Millisecond
	random := rand.New(rand.NewPCG(*seed, 0))
	withstand(t, store{Location: server.URL(), Schema: "crash"}, time.Duration(*serverKills)*(between+downFor), func() {
		for range *serverKills {
			<-time.After(upTo(random, between))
			require.NoError(t, server.Kill())
			<-time.After(upTo(random, downFor))
			require.NoError(t, server.Run())
		}
	})
}

// TestPostgresConnectionsAreCut runs a plan on two queues while the server ends connections at
// random, and all of them now and then.
func TestPostgresConnectionsAreCut(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	on := newSchema(t)
	t.Logf("-crashtest.seed=%d -crashtest.terminations=%d", *seed, *terminations)
	conn, err := pgx.Connect(t.Context(), on.Location)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	const between = 40 * time.Millisecond
	random := rand.New(rand.NewPCG(*seed, 0))
	cut := 0
	withstand(t, on, time.Duration(*terminations)*between, func() {
		for cut < *terminations {
			<-time.After(upTo(random, between))
			limit := 1
			if random.IntN(8) == 0 {
				limit = 1000
			}
			var n int
			err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT $1) victims`, limit).Scan(&n)
			require.NoError(t, err)
			cut += n
		}
	})
	t.Logf("%d connections cut", cut)
}

// withstand runs a plan on two queues while the server has faults, and requires that every
// promise is kept.
func withstand(t *testing.T, on store, load time.Duration, faults func()) {
	t.Helper()
	j := newMemoryJournal()
	registerJobs(j)
	p := newPlan(planOptions{Seed: *seed, Load: load, Scopes: 8, LongWork: outageLease * 5 / 4})
	observer := newQueue(t, on.open(t), outageLease)
	defer closeQueue(t, observer)
	var queues [2]amboy.RetryableQueue
	for i := range queues {
		queues[i] = newQueue(t, newRecorder(on.open(t), j), outageLease)
		require.NoError(t, queues[i].Start(context.WithoutCancel(t.Context())))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producers sync.WaitGroup
	began := time.Now()
	for part := range processes {
		producer := &producer{queue: func() amboy.Queue { return queues[part%len(queues)] }, journal: j, insists: true}
		producers.Go(func() { producer.produce(ctx, p.puts[part], began) })
	}
	faults()
	producers.Wait()

	awaitIdle(t, observer)
	putLast(t, observer, p, j)
	awaitIdle(t, observer)
	for _, q := range queues {
		closeQueue(t, q)
	}
	events, _ := j.events()
	h := &history{plan: p, lease: outageLease, events: events, stored: storedIn(t, observer, p)}
	requireKept(t, h)
	t.Logf("%d jobs, %d runs", len(h.stored), j.count(isRun))
}
