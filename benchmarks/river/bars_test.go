package river

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

var (
	latencyTime = flag.Duration("latency", 5*time.Second, "how long TestLatency puts jobs")
	backlog     = flag.Int("backlog", 50_000, "the number of scheduled and of finished jobs of TestBacklog")
	dueJobs     = flag.Int("due", 20_000, "the number of jobs of TestDue")
	dueAfter    = flag.Duration("due.after", 15*time.Second, "when the jobs of TestDue are due")
	steadyShare = flag.Float64("steady.share", 0.5, "the load of TestSteadyLoad, as a share of the rate of a drain")
	steadyTime  = flag.Duration("steady", 30*time.Second, "how long TestSteadyLoad lasts; with -keep=1m, as long as jobs are kept")
	tenants     = flag.Int("tenants", 1000, "the number of idle tenants of TestTenants")
)

// TestLatency measures the time from Put to Run, in another process of the store: idle, with one job
// every 20 ms, and at 300 jobs a second.
func TestLatency(t *testing.T) {
	for _, rate := range []int{50, 300} {
		for _, s := range systems {
			t.Run(s.name+"/"+strconv.Itoa(rate), func(t *testing.T) {
				ctx := t.Context()
				it := s.open(ctx, t, 16)
				check(t, it.start(ctx))
				other := it.beside(ctx, t)
				tick := time.NewTicker(time.Second / time.Duration(rate))
				defer tick.Stop()
				put := 0
				for began := time.Now(); time.Since(began) < *latencyTime; <-tick.C {
					check(t, other.put(ctx, 1, time.Time{}))
					put++
				}
				awaitEnds(ctx, t, it, put, put)
				late := it.common().late[put/10:] // the first claims prepare statements
				slices.Sort(late)
				t.Logf("%s; load %s", samples(late), load())
				check(t, other.close(ctx))
				other.common().pool.Close()
				finish(ctx, t, it)
			})
		}
	}
}

// keepFor sets for how long jobs that succeeded are kept, until the test ends.
func keepFor(t *testing.T, d time.Duration) {
	t.Helper()
	before := *keep
	t.Cleanup(func() { *keep = before })
	*keep = d
}

// TestWAL measures the bytes of the write-ahead log per job of 100 bytes, from Put to removal.
func TestWAL(t *testing.T) {
	const put = 10_000
	keepFor(t, time.Second)
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			ctx := t.Context()
			conn := connect(ctx, t)
			it := s.open(ctx, t, 16)
			it.common().text = strings.Repeat("x", 50) // together with the rest some 100 bytes
			_, err := conn.Exec(ctx, "CHECKPOINT")
			check(t, err)
			var before string
			check(t, conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&before))
			check(t, it.start(ctx))
			for range put / 1000 {
				check(t, it.put(ctx, 1000, time.Time{}))
			}
			awaitEnds(ctx, t, it, put, 0)
			removed := ""
			if s.name == "amboy" {
				await(ctx, t, func() (bool, error) {
					n, err := it.ended(ctx)
					return n == 0, err
				})
			} else { // River's cleaner runs every 30 s
				removed = ", without removal"
			}
			var wal int64
			check(t, conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - $1::pg_lsn)::bigint", before).Scan(&wal))
			t.Logf("%d bytes of WAL a job%s", wal/put, removed)
			finish(ctx, t, it)
		})
	}
}

// TestBacklog runs 1,000 jobs at a time through a queue with scheduled and finished jobs, and through an empty
// one, in turns.
func TestBacklog(t *testing.T) {
	const passing, rounds = 1000, 11
	ctx := t.Context()
	keepFor(t, 24*time.Hour)
	full := newOurs(ctx, t, 8).(*ours)
	check(t, full.start(ctx))
	for range *backlog / 1000 {
		check(t, full.put(ctx, 1000, time.Now().Add(24*time.Hour)))
		check(t, full.put(ctx, 1000, time.Time{}))
	}
	awaitEnds(ctx, t, full, *backlog, 0)
	t.Logf("%d scheduled and %d finished; load %s", *backlog, *backlog, load())
	empty := newOurs(ctx, t, 8).(*ours)
	check(t, empty.start(ctx))
	took := map[*ours]samples{}
	for range rounds {
		for _, it := range []*ours{full, empty} {
			current.Store(it)
			it.latencies()
			began := time.Now()
			check(t, it.put(ctx, passing, time.Time{}))
			await(ctx, t, func() (bool, error) { return it.runs() >= passing, nil })
			took[it] = append(took[it], time.Since(began))
		}
	}
	slices.Sort(took[full])
	slices.Sort(took[empty])
	t.Logf("with the backlog %s, empty %s: %.2f times; load %s", took[full], took[empty],
		took[full].quantile(0.5).Seconds()/took[empty].quantile(0.5).Seconds(), load())
	finish(ctx, t, full)
	finish(ctx, t, empty)
}

// TestDue measures how late jobs run that are due over 2 s.
func TestDue(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			ctx := t.Context()
			it := s.open(ctx, t, 64)
			check(t, it.start(ctx))
			began := time.Now()
			first, parts := began.Add(*dueAfter), *dueJobs/500
			for i := range parts {
				check(t, it.put(ctx, 500, first.Add(time.Duration(i)*2*time.Second/time.Duration(parts))))
			}
			if time.Now().After(first) {
				t.Fatalf("putting took %s; set -due.after", time.Since(began))
			}
			await(ctx, t, func() (bool, error) { return it.common().runs() >= *dueJobs, nil })
			t.Logf("all had run %s after the first was due; late: %s; load %s", time.Since(first), it.common().latencies(), load())
			finish(ctx, t, it)
		})
	}
}

// BenchmarkRetries runs 10,000 jobs that fail once and are retried at once.
func BenchmarkRetries(b *testing.B) {
	const failing = 10_000
	ctx := b.Context()
	took := map[string]time.Duration{}
	for b.Loop() {
		for _, s := range systems {
			it := s.open(ctx, b, 64)
			it.common().fails = true
			for range failing / 1000 {
				check(b, it.put(ctx, 1000, time.Time{}))
			}
			began := time.Now()
			check(b, it.start(ctx))
			awaitEnds(ctx, b, it, failing, failing)
			took[s.name] += time.Since(began)
			finish(ctx, b, it)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, d := range took {
		b.ReportMetric(float64(failing*b.N)/d.Seconds(), name+"-jobs/s")
	}
	b.Logf("load %s", load())
}

// TestSteadyLoad finds the rate of a drain, puts jobs at a share of it for a while with autovacuum at its
// defaults, and drains again.
func TestSteadyLoad(t *testing.T) {
	ctx := t.Context()
	it := newOurs(ctx, t, 64).(*ours)
	conn := connect(ctx, t)
	check(t, it.start(ctx))
	drainNow := func() float64 {
		await(ctx, t, it.isDrained) // of what was put before
		it.latencies()
		check(t, amboy.Pause(ctx, it.queue))
		for range *jobs / 1000 {
			check(t, it.put(ctx, 1000, time.Time{}))
		}
		began := time.Now()
		check(t, amboy.Resume(ctx, it.queue))
		await(ctx, t, func() (bool, error) { return it.runs() >= *jobs, nil })
		await(ctx, t, it.isDrained)
		return float64(*jobs) / time.Since(began).Seconds()
	}
	before := drainNow()
	it.latencies()
	rate := int(before * *steadyShare)
	t.Logf("a drain: %.0f jobs/s; now %d/s; load %s", before, rate, load())
	began, part := time.Now(), 1
	steadily(ctx, t, it, rate, func(int) bool {
		if time.Since(began) < time.Duration(part)**steadyTime/10 {
			return true
		}
		var size int64
		check(t, conn.QueryRow(ctx, "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'",
			it.schema).Scan(&size))
		t.Logf("part %d of 10: put to run %s; %d MB; load %s", part, it.latencies(), size>>20, load())
		part++
		return part <= 10
	})
	after := drainNow()
	t.Logf("a drain after that: %.0f jobs/s, %.2f of before", after, after/before)
	finish(ctx, t, it)
}

// TestTenants counts the statements of a process with idle tenants, and compares the rate of
// one busy tenant beside them with that of a tenant alone.
func TestTenants(t *testing.T) {
	ctx := t.Context()
	rates := map[int]samples{}
	type group struct {
		*ours
		tenants int
		group   amboy.QueueGroup
	}
	var groups []*group
	for _, n := range []int{0, *tenants} {
		g := &group{tenants: n, ours: &ours{base: &base{schema: newSchema()}}}
		g.pool = newPool(ctx, t, g.schema, &g.traced)
		d, err := postgres.Open(ctx, postgres.Options{Pool: g.pool, Schema: g.schema})
		check(t, err)
		g.group, err = queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 8}, Workers: 8,
		})
		check(t, err)
		for i := range n {
			other, getErr := g.group.Get(ctx, strconv.Itoa(i))
			check(t, getErr)
			if i < 100 { // some have had jobs
				g.queue = other.(amboy.RetryableQueue)
				current.Store(g.ours)
				check(t, g.put(ctx, 1, time.Time{}))
			}
		}
		q, err := g.group.Get(ctx, "busy")
		check(t, err)
		g.queue = q.(amboy.RetryableQueue)
		groups = append(groups, g)
	}
	time.Sleep(5 * time.Second) // until what followed from the opening is over
	idle := groups[1]
	before := idle.traced.statements.Load()
	time.Sleep(20 * time.Second)
	t.Logf("%d idle tenants: %.1f statements/s; load %s", *tenants, float64(idle.traced.statements.Load()-before)/20, load())
	for range 5 {
		for _, g := range groups {
			current.Store(g.ours)
			g.latencies()
			began := time.Now()
			for range 5 {
				check(t, g.put(ctx, 1000, time.Time{}))
			}
			await(ctx, t, func() (bool, error) { return g.runs() >= 5000, nil })
			rates[g.tenants] = append(rates[g.tenants], time.Since(began))
		}
	}
	slices.Sort(rates[0])
	slices.Sort(rates[*tenants])
	t.Logf("5,000 jobs of one tenant: alone %s, beside %d %s: %.2f of its rate; load %s", rates[0].quantile(0.5), *tenants, rates[*tenants].quantile(0.5),
		rates[0].quantile(0.5).Seconds()/rates[*tenants].quantile(0.5).Seconds(), load())
	for _, g := range groups {
		check(t, g.group.Close(ctx))
		_, err := g.pool.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{g.schema}.Sanitize()+" CASCADE")
		check(t, err)
		g.pool.Close()
	}
}
