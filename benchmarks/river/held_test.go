package river

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	hold     = flag.Duration("hold", 20*time.Second, "how long TestHeldSnapshot holds its snapshot")
	holdRate = flag.Int("hold.rate", 500, "the number of jobs that TestHeldSnapshot puts in a second")
)

// claims is the cost of the claim statement, by the server's pg_stat_statements.
type claims struct {
	calls, rows     int64
	buffers, millis float64
}

func readClaims(ctx context.Context, conn *pgx.Conn, pattern, schema string) (c claims, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(rows), 0)::bigint,
			coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8, coalesce(sum(total_exec_time), 0)::float8
		FROM pg_stat_statements WHERE query LIKE $1 AND query LIKE '%'||$2||'%'`, pattern, schema).Scan(&c.calls, &c.rows, &c.buffers, &c.millis)
	return c, err
}

// TestHeldSnapshot puts and runs jobs at a steady rate while a snapshot is held, so that no dead
// row can be removed. It reports the cost of claims in each sixth of that time. The server must
// have pg_stat_statements.
func TestHeldSnapshot(t *testing.T) {
	ctx := t.Context()
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			conn, err := pgx.Connect(ctx, server(t))
			check(t, err)
			defer func() { check(t, conn.Close(context.WithoutCancel(ctx))) }()
			var installed bool
			check(t, conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements')").Scan(&installed))
			if !installed {
				t.Skip("the server has no pg_stat_statements")
			}
			it := s.open(ctx, t, 16)
			holder, err := pgx.Connect(ctx, server(t))
			check(t, err)
			defer func() { check(t, holder.Close(context.WithoutCancel(ctx))) }()
			_, err = holder.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
			check(t, err)
			pattern, schema, done := "WITH locked_jobs%", "", func() int64 { return 0 }
			switch it := it.(type) {
			case *ours:
				pattern, schema, done = "%FOR UPDATE SKIP LOCKED) j%", it.schema, it.ended.Load
			case *theirs:
				schema, done = it.schema, it.ended.Load
				pattern = "%FOR UPDATE%SKIP LOCKED%"
			}
			var before string
			check(t, conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&before))
			ran := make(chan error, 1)
			total := int(hold.Seconds()) * *holdRate
			go func() { ran <- it.run(ctx, total) }()
			last, err := readClaims(ctx, conn, pattern, schema)
			check(t, err)
			batch, put := max(1, *holdRate/50), 0
			tick := time.NewTicker(time.Second * time.Duration(batch) / time.Duration(*holdRate))
			defer tick.Stop()
			for part := 1; put < total; {
				<-tick.C
				check(t, it.put(ctx, min(batch, total-put)))
				put += min(batch, total-put)
				if put < part*total/6 {
					continue
				}
				now, err := readClaims(ctx, conn, pattern, schema)
				check(t, err)
				calls := float64(max(1, now.calls-last.calls))
				t.Logf("part %d of 6: %d claims of %.1f jobs, %.0f buffers and %.2f ms each; %d jobs behind; load %s", part, now.calls-last.calls,
					float64(now.rows-last.rows)/calls, (now.buffers-last.buffers)/calls, (now.millis-last.millis)/calls, int64(put)-done(), load())
				last, part = now, part+1
			}
			check(t, <-ran)
			var wal int64
			check(t, conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - $1::pg_lsn)::bigint", before).Scan(&wal))
			t.Logf("%d bytes of WAL a job, of the whole server", wal/int64(total))
			check(t, it.close(ctx))
		})
	}
}
