package river

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	hold     = flag.Duration("hold", 20*time.Second, "how long TestHeldSnapshot holds its snapshot")
	readers  = flag.Duration("readers", 0, "how long each of three overlapping readers then holds one")
	holdRate = flag.Int("hold.rate", 500, "the number of jobs that TestHeldSnapshot puts in a second")
	holdDue  = flag.Duration("hold.due", 0, "how long after it was put each of these jobs is due")
	runBy    = flag.Duration("run.by", 0, "how long after it was put a job of ours expires; 0 for never")
)

// claims is the cost of the claim statement, by the server's pg_stat_statements.
type claims struct {
	calls, rows     int64
	buffers, millis float64
}

func readClaims(ctx context.Context, tb testing.TB, conn *pgx.Conn, schema string) (c claims) {
	tb.Helper()
	check(tb, conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(rows), 0)::bigint,
			coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8, coalesce(sum(total_exec_time), 0)::float8
		FROM pg_stat_statements WHERE (query LIKE '%LIMIT w.wanted%' OR query LIKE '%JobGetAvailable%') AND query LIKE '%'||$1||'%'`,
		schema).Scan(&c.calls, &c.rows, &c.buffers, &c.millis))
	return c
}

// hasStatements skips a test if the server has no pg_stat_statements.
func hasStatements(ctx context.Context, tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	var installed bool
	check(tb, conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements')").Scan(&installed))
	if !installed {
		tb.Skip("the server has no pg_stat_statements")
	}
}

func connect(ctx context.Context, tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(ctx, server(tb))
	check(tb, err)
	tb.Cleanup(func() { check(tb, conn.Close(context.WithoutCancel(ctx))) })
	return conn
}

// holdSnapshot holds a snapshot for a time, or until ctx ends.
func holdSnapshot(ctx context.Context, tb testing.TB, after, d time.Duration) {
	conn := connect(ctx, tb)
	sleep(ctx, after)
	_, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
	check(tb, err)
	sleep(ctx, d)
	_, err = conn.Exec(context.WithoutCancel(ctx), "COMMIT")
	check(tb, err)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// steadily puts jobs at a rate. each is called after every batch, and ends it by returning false.
func steadily(ctx context.Context, tb testing.TB, s system, rate int, each func(put int) bool) (put int) {
	tb.Helper()
	var at time.Time
	batch := max(1, rate/50)
	tick := time.NewTicker(time.Second * time.Duration(batch) / time.Duration(rate))
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		// A tick that was missed is made up for.
		for due := int(time.Since(began).Seconds() * float64(rate)); put < due; put += batch {
			if *holdDue > 0 {
				at = time.Now().Add(*holdDue)
			}
			check(tb, s.put(ctx, batch, at))
		}
		if !each(put) {
			return put
		}
	}
}

// TestHeldSnapshot puts and runs jobs at a steady rate while a snapshot is held, so that no dead
// row can be removed, and then while three readers that overlap by half hold one. It reports the
// cost of claims in each tenth of that time. The server must have pg_stat_statements.
func TestHeldSnapshot(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			ctx := t.Context()
			conn := connect(ctx, t)
			hasStatements(ctx, t, conn)
			it := s.open(ctx, t, 16)
			var holders sync.WaitGroup
			holders.Go(func() { holdSnapshot(ctx, t, 0, *hold) })
			whole := *hold
			if *readers > 0 {
				for n := range 3 {
					holders.Go(func() { holdSnapshot(ctx, t, *hold+time.Duration(n)**readers/2, *readers) })
				}
				whole += 2 * *readers
			}
			var before string
			check(t, conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&before))
			check(t, it.start(ctx))
			last, part, ran, behind := claims{}, 1, 0, 0
			began := time.Now()
			put := steadily(ctx, t, it, *holdRate, func(put int) bool {
				behind = max(behind, put-ran-it.common().runs())
				if time.Since(began) < time.Duration(part)*whole/10 {
					return true
				}
				now := readClaims(ctx, t, conn, it.common().schema)
				calls := float64(max(1, now.calls-last.calls))
				late := it.common().latencies()
				ran += len(late)
				t.Logf("part %d of 10: %d claims of %.1f jobs, %.0f buffers and %.2f ms in the server each; claims %s; put to run %s; at most %d jobs behind; load %s",
					part, now.calls-last.calls, float64(now.rows-last.rows)/calls, (now.buffers-last.buffers)/calls, (now.millis-last.millis)/calls,
					it.common().traced.claimTimes(), late, behind, load())
				last, part, behind = now, part+1, 0
				return part <= 10
			})
			awaitEnds(ctx, t, it, put-ran, 0)
			var wal int64
			check(t, conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - $1::pg_lsn)::bigint", before).Scan(&wal))
			t.Logf("%d bytes of WAL a job, of the whole server", wal/int64(put))
			holders.Wait()
			finish(ctx, t, it)
		})
	}
}
