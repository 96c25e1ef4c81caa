package river

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	jobs    = flag.Int("jobs", 20_000, "the number of jobs of a drain")
	putJobs = flag.Int("put.jobs", 4_000, "the number of jobs that are put one at a time")
)

// BenchmarkDrain runs no-op jobs that were put 1,000 at a time, on each system in turn, and beside
// them a loop of SQL that claims and ends 256 rows at a time.
func BenchmarkDrain(b *testing.B) {
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			ctx := b.Context()
			took, statements := map[string]time.Duration{}, map[string]int64{}
			for b.Loop() {
				for _, s := range systems {
					d, n := drain(ctx, b, s.open(ctx, b, workers))
					took[s.name] += d
					statements[s.name] += n
				}
				took["bare"] += drainBare(ctx, b)
			}
			total := float64(*jobs * b.N)
			b.ReportMetric(0, "ns/op")
			for name, d := range took {
				b.ReportMetric(total/d.Seconds(), name+"-jobs/s")
			}
			for name, n := range statements {
				b.ReportMetric(float64(n)/total, name+"-statements/job")
			}
			b.ReportMetric(took["river"].Seconds()/took["amboy"].Seconds(), "x-river")
			b.ReportMetric(took["bare"].Seconds()/took["amboy"].Seconds(), "x-bare")
			b.Logf("load %s", load())
		})
	}
}

func drain(ctx context.Context, tb testing.TB, s system) (took time.Duration, statements int64) {
	for range *jobs / 1000 {
		check(tb, s.put(ctx, 1000, time.Time{}))
	}
	before, began := s.common().traced.statements.Load(), time.Now()
	check(tb, s.start(ctx))
	await(ctx, tb, func() (bool, error) { return s.common().runs() >= *jobs, nil })
	statements = s.common().traced.statements.Load() - before
	awaitEnds(ctx, tb, s, *jobs, *jobs)
	took = time.Since(began)
	finish(ctx, tb, s)
	return took, statements
}

// drainBare claims and ends the rows of a table, without a queue.
func drainBare(ctx context.Context, tb testing.TB) time.Duration {
	schema := newSchema()
	conn, err := pgx.Connect(ctx, server(tb))
	check(tb, err)
	run := func(text string, args ...any) int64 {
		tag, err := conn.Exec(ctx, text, args...)
		check(tb, err)
		return tag.RowsAffected()
	}
	run("CREATE SCHEMA " + schema)
	run("CREATE TABLE " + schema + ".jobs (id bigserial PRIMARY KEY, state smallint NOT NULL DEFAULT 0, attempt int NOT NULL DEFAULT 0, args jsonb)")
	run("CREATE INDEX ON " + schema + ".jobs (id) WHERE state = 0")
	for range *jobs / 1000 {
		run("INSERT INTO "+schema+".jobs (args) SELECT jsonb_build_object('at', $1::bigint) FROM generate_series(1, 1000)", time.Now().UnixNano())
	}
	began := time.Now()
	for ended := 0; ended < *jobs; {
		rows, err := conn.Query(ctx, "UPDATE "+schema+".jobs SET state = 1, attempt = attempt + 1 WHERE id IN (SELECT id FROM "+schema+
			".jobs WHERE state = 0 ORDER BY id LIMIT 256 FOR UPDATE SKIP LOCKED) RETURNING id")
		check(tb, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		check(tb, err)
		ended += int(run("UPDATE "+schema+".jobs SET state = 2 WHERE id = ANY($1)", ids))
	}
	took := time.Since(began)
	run("DROP SCHEMA " + schema + " CASCADE")
	check(tb, conn.Close(ctx))
	return took
}

// BenchmarkPut puts jobs one at a time, from 8 goroutines, while none runs, on each system in turn.
func BenchmarkPut(b *testing.B) {
	ctx := b.Context()
	took, each := map[string]time.Duration{}, map[string]samples{}
	for b.Loop() {
		for _, s := range systems {
			it := s.open(ctx, b, 8)
			var mu sync.Mutex
			var all sync.WaitGroup
			began := time.Now()
			for range 8 {
				all.Go(func() {
					for range *putJobs / 8 {
						begin := time.Now()
						if err := it.put(ctx, 1, time.Time{}); err != nil {
							b.Error(err)
							return
						}
						d := time.Since(begin)
						mu.Lock()
						each[s.name] = append(each[s.name], d)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			took[s.name] += time.Since(began)
			finish(ctx, b, it)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, list := range each {
		slices.Sort(list)
		b.ReportMetric(float64(len(list))/took[name].Seconds(), name+"-jobs/s")
		b.ReportMetric(float64(list.quantile(0.99).Microseconds()), name+"-p99-us")
	}
	b.ReportMetric(took["river"].Seconds()/took["amboy"].Seconds(), "x-river")
	b.Logf("load %s", load())
}
