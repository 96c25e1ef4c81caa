package crashtest_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	// What it has written is safe with the operating system, which keeps running: it does not have to
	// wait for the disk.
	server, err := pgtest.Start(pgtest.Options{Durable: true, Settings: []string{"fsync=off"}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Stop()) }()
	t.Logf("-crashtest.seed=%d -crashtest.serverkills=%d", *seed, *serverKills)
	const between, downFor = 700 * time.Millisecond, 400 * time.Millisecond
	random := rand.New(rand.NewPCG(*seed, 0))
	on := store{Location: server.URL(), Schema: "crash"}
	withstand(t, on, trial{load: time.Duration(*serverKills) * (between + downFor), lease: outageLease}, func(*journal) {
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
	withstand(t, on, trial{load: time.Duration(*terminations) * between, lease: outageLease}, func(*journal) {
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
