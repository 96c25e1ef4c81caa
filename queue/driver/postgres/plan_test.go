package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

var others = flag.Int("postgres.others", 20_000, "the number of scheduled and of finished jobs beside which plans are tested")

// The planner has its default settings, and statistics or none.
func TestTheCostOfAJobDoesNotDependOnScheduledAndFinishedJobs(t *testing.T) {
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed ", analyzed), func(t *testing.T) {
			// It was 17 with statistics, and 58 to 96 without, depending on whether the server analyzed
			// the table meanwhile. If each claim, of some 25 jobs, read the others, it would be 800.
			const jobs, most = 1000, 200
			conn := connect(t, pgtest.URL(t))
			schema := pgtest.Schema(t)
			opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
			d := open(t, opts)
			scheduled := newRecord("scheduled")
			scheduled.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
			insert(t.Context(), t, d, newRecord("finished"), scheduled)
			end(t.Context(), t, d, claim(t, d, 1)[0], "")
			multiply(t, conn, schema, "finished", *others)
			multiply(t, conn, schema, "scheduled", *others)
			execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
			if analyzed {
				execute(t, conn, "ANALYZE "+schema+".jobs")
			}
			before := tuplesRead(t, conn, d, schema, "jobs")

			d = open(t, opts)
			runMany(t, d, jobs)
			perJob := (tuplesRead(t, conn, d, schema, "jobs") - before) / jobs
			t.Logf("%d rows and index entries read a job", perJob)
			assert.LessOrEqual(t, perJob, most)
		})
	}
}

// A store without statistics may be one that the server has not analyzed yet.
func TestTheCostOfAPutDoesNotDependOnOtherQueues(t *testing.T) {
	const queues, puts = 2000, 20
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	execute(t, conn, fmt.Sprintf("INSERT INTO %s.queues (name) SELECT 'other-' || n FROM generate_series(1, %d) AS n", schema, queues))
	insert(t.Context(), t, d, newRecord("first"))
	before := tuplesRead(t, conn, d, schema, "queues")

	d = open(t, opts)
	for i := range puts {
		insert(t.Context(), t, d, newRecord(fmt.Sprint("job ", i)))
	}
	perPut := (tuplesRead(t, conn, d, schema, "queues") - before) / puts
	t.Logf("%d rows and index entries read a Put", perPut)
	assert.Less(t, perPut, queues/10)
}

// The index did not find the leases that had ended, because the time was another one for each row.
func TestARecoveryReadAllLeases(t *testing.T) {
	const leases, calls = 2000, 10
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema})
	execute(t, conn, fmt.Sprintf("INSERT INTO %s.leases (until, taken, seqs) SELECT %d, 0, '{}'::bigint[] FROM generate_series(1, %d)",
		schema, time.Now().Add(time.Hour).UnixNano(), leases))
	for range calls {
		n, err := d.RecoverStale(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	}
	perCall := tuplesRead(t, conn, d, schema, "leases") / calls
	t.Logf("%d rows and index entries read a call", perCall)
	assert.Less(t, perCall, leases/10)
}

// The server makes a plan once. If the table of jobs was small then, a claim, a renewal or an end read all jobs
// of a burst, once for each of its own jobs, until the server had analyzed the table.
func TestPlansOfASmallTableReadAllJobsAfterABurst(t *testing.T) {
	const cycles = 20
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t) + "&pool_max_conns=1&application_name=" + schema, Schema: schema})
	postgres.SetReplanInterval(d, 0)
	execute(t, conn, "ALTER TABLE "+schema+".jobs SET (autovacuum_enabled = off)")
	execute(t, conn, "VACUUM ANALYZE "+schema+".jobs")
	run := func(name string) {
		t.Helper()
		insert(t.Context(), t, d, newRecord(name), scoped("scoped "+name, 0, "scope"))
		var leases []driver.Lease
		var completions []driver.Completion
		for _, r := range claim(t, d, 2) {
			require.NoError(t, d.SetProgress(t.Context(), driver.LeaseOf(r), driver.Progress{}))
			leases = append(leases, driver.LeaseOf(r))
			r.Status.Completed = true
			completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
		}
		require.Len(t, leases, 2)
		_, err := d.Extend(t.Context(), leases, time.Minute)
		require.NoError(t, err)
		_, err = d.CancelRequests(t.Context(), "owner")
		require.NoError(t, err)
		errs, err := d.Complete(t.Context(), completions)
		require.NoError(t, errors.Join(append(errs, err)...))
	}
	run("first")
	multiply(t, conn, schema, "first", *others)
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	for i := range cycles {
		run(fmt.Sprint(i))
	}
	perCycle := tuplesRead(t, conn, d, schema, "jobs") / cycles
	t.Logf("%d rows and index entries read a cycle", perCycle)
	assert.Less(t, perCycle, *others/4, "the first claim after the burst reads them")
}

// The connection of a caller keeps its plans as long as it lives. Those of a small table read all jobs of a burst, once
// for each job that ended in a transaction, and some eight times if another job waited for it.
func TestEachEndInATransactionReadAllJobsAfterABurst(t *testing.T) {
	const cycles = 20
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("another job waits ", waits), func(t *testing.T) {
			conn := connect(t, pgtest.URL(t))
			schema := pgtest.Schema(t)
			url := pgtest.URL(t) + "&application_name=" + schema
			d := open(t, postgres.Options{URL: url, Schema: schema})
			postgres.SetReplanInterval(d, 0)
			execute(t, conn, "ALTER TABLE "+schema+".jobs SET (autovacuum_enabled = off)")
			execute(t, conn, "VACUUM ANALYZE "+schema+".jobs")
			caller := connect(t, url)
			run := func(name string) {
				t.Helper()
				insert(t.Context(), t, d, newRecord(name))
				claimed := claim(t, d, 1)
				require.Len(t, claimed, 1)
				tx, err := caller.Begin(t.Context())
				require.NoError(t, err)
				ctx := postgres.WithTx(t.Context(), tx)
				if waits {
					insert(ctx, t, d, dependent("after "+name, name))
				}
				claimed[0].Status.Completed = true
				errs, err := d.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(claimed[0]), Record: claimed[0]}})
				require.NoError(t, errors.Join(append(errs, err)...))
				var setting string
				require.NoError(t, tx.QueryRow(t.Context(), "SHOW enable_seqscan").Scan(&setting))
				require.Equal(t, "on", setting, "for the caller")
				require.NoError(t, tx.Commit(t.Context()))
			}
			for i := range 8 { // a server keeps a plan from the sixth execution on
				run(fmt.Sprint("early ", i))
			}
			multiply(t, conn, schema, "early 0", *others)
			execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
			for i := range cycles {
				run(fmt.Sprint(i))
			}
			require.NoError(t, caller.Close(t.Context()))
			perCycle := tuplesRead(t, conn, d, schema, "jobs") / cycles
			t.Logf("%d rows and index entries read a cycle", perCycle)
			assert.Less(t, perCycle, *others/4, "the first claim after the burst reads them")
		})
	}
}

// Without statistics, the server joined the line of the next attempt before the job itself, and then searched for the job
// by its queue alone, once for each retry.
func TestEachRetryReadAllJobsOfItsQueue(t *testing.T) {
	const jobs, calls, each = 5000, 8, 20
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed ", analyzed), func(t *testing.T) {
			conn := connect(t, pgtest.URL(t))
			schema := pgtest.Schema(t)
			d := open(t, postgres.Options{URL: pgtest.URL(t) + "&pool_max_conns=1&application_name=" + schema, Schema: schema})
			execute(t, conn, "ALTER TABLE "+schema+".jobs SET (autovacuum_enabled = off)")
			for part := range jobs / 1000 {
				records := make([]*driver.Record, 1000)
				for i := range records {
					records[i] = attemptOf(fmt.Sprintf("job %d", 1000*part+i), 0)
				}
				insert(t.Context(), t, d, records...)
			}
			if analyzed {
				execute(t, conn, "ANALYZE "+schema+".jobs")
			}
			for range calls {
				var completions []driver.Completion
				for _, r := range claim(t, d, each) {
					r.Status.Completed, r.RetryInfo.NeedsRetry = true, true
					completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r, Next: attemptOf(r.RetryInfo.BaseJobID, 1)})
				}
				require.Len(t, completions, each)
				errs, err := d.Complete(t.Context(), completions)
				require.NoError(t, errors.Join(append(errs, err)...))
			}
			perRetry := tuplesRead(t, conn, d, schema, "jobs") / calls / each
			t.Logf("%d rows and index entries read a retry", perRetry)
			assert.Less(t, perRetry, 100)
		})
	}
}

// The plan of a small table for a search by name was to read all of it, and until the plan was made anew each Put of a
// job with a scope read all jobs that were put before.
func TestEachPutWithAScopeReadTheJobsBeforeIt(t *testing.T) {
	const jobs = 2000
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t) + "&pool_max_conns=1&application_name=" + schema, Schema: schema})
	postgres.SetReplanInterval(d, time.Hour)
	execute(t, conn, "ALTER TABLE "+schema+".jobs SET (autovacuum_enabled = off)")
	for part := range jobs / 100 {
		records := make([]*driver.Record, 100)
		for i := range records {
			records[i] = scoped(fmt.Sprint(part, " ", i), 0, "scope")
		}
		insert(t.Context(), t, d, records...)
		saved, err := d.Get(t.Context(), "", records[0].JobID())
		require.NoError(t, err)
		require.NoError(t, d.Save(t.Context(), saved))
	}
	perJob := tuplesRead(t, conn, d, schema, "jobs") / jobs
	t.Logf("%d rows and index entries read a job", perJob)
	assert.Less(t, perJob, 50)
}

// A group asks for the queues with work after each change, and read all queues that there ever were.
func TestWorkReadAllIdleQueues(t *testing.T) {
	const queues, calls = 10_000, 10
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	execute(t, conn, fmt.Sprintf("INSERT INTO %s.queues (name) SELECT 'idle-' || n FROM generate_series(1, %d) AS n", schema, queues))
	execute(t, conn, fmt.Sprintf("INSERT INTO %[1]s.tallies (queue, now, n) SELECT id, 8, 1 FROM %[1]s.queues", schema))
	insert(t.Context(), t, d, newRecord("ready"))
	before := tuplesRead(t, conn, d, schema, "queues")

	d = open(t, opts)
	for range calls {
		work, err := d.Work(t.Context(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, []driver.QueueWork{{Ready: true}}, work.Queues)
	}
	perCall := (tuplesRead(t, conn, d, schema, "queues") - before) / calls
	t.Logf("%d rows and index entries read a call", perCall)
	assert.Less(t, perCall, 100)
}

// While a snapshot is held, no removed row leaves its index. For each row of the log of endings that Forget
// removed, it read all that were removed before.
func TestForgetReadAllRemovedRowsForEachRow(t *testing.T) {
	const rows = 1000
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema})
	execute(t, conn, fmt.Sprintf("INSERT INTO %s.endings (forget_at, seqs) SELECT n, '{}'::bigint[] FROM generate_series(1, %d) AS n", schema, rows))
	snapshot, err := connect(t, pgtest.URL(t)).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = snapshot.Exec(t.Context(), "SELECT count(*) FROM "+schema+".queues")
	require.NoError(t, err)
	_, err = d.Forget(t.Context(), time.Now(), 10)
	require.NoError(t, err)
	require.NoError(t, snapshot.Rollback(t.Context()))
	assert.Zero(t, count(t, conn, schema, "endings"))
	perRow := tuplesRead(t, conn, d, schema, "endings") / rows
	t.Logf("%d rows and index entries read a row", perRow)
	assert.Less(t, perRow, 10)
}

// The same for the log of leases: a recovery read all rows that it had removed for each 500 more.
func TestARecoveryReadAllRemovedLeasesAgainAndAgain(t *testing.T) {
	const rows = 20_000
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema})
	execute(t, conn, fmt.Sprintf("INSERT INTO %s.leases (until, taken, seqs) SELECT n, 0, '{}'::bigint[] FROM generate_series(1, %d) AS n", schema, rows))
	release := holdSnapshot(t, schema, 0)
	n, err := d.RecoverStale(t.Context())
	require.NoError(t, err)
	release()
	assert.Zero(t, n)
	assert.Zero(t, count(t, conn, schema, "leases"))
	perRow := tuplesRead(t, conn, d, schema, "leases") / rows
	t.Logf("%d rows and index entries read a row", perRow)
	assert.Less(t, perRow, 10)
}

// A diagnosis read all jobs that hold scopes to find the holder of one that they wait for.
func TestTheSearchForTheHolderOfAScopeReadAllJobsThatHoldAny(t *testing.T) {
	const calls = 10
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed ", analyzed), func(t *testing.T) {
			conn := connect(t, pgtest.URL(t))
			schema := pgtest.Schema(t)
			opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
			d := open(t, opts)
			execute(t, conn, "ALTER TABLE "+schema+".jobs SET (autovacuum_enabled = off)")
			waits, holder := scoped("waits", 0, "own", "scope"), scoped("holder", 0, "scope")
			waits.EnqueueScopes, holder.EnqueueScopes = []string{"own"}, []string{"scope"}
			insert(t.Context(), t, d, waits, holder)
			multiply(t, conn, schema, "waits", *others)
			execute(t, conn, "INSERT INTO "+schema+".scope_holders SELECT queue, 'own of ' || job_id, job_id FROM "+schema+".jobs")
			if analyzed {
				execute(t, conn, "ANALYZE "+schema+".jobs, "+schema+".scope_holders")
			}
			before := tuplesRead(t, conn, d, schema, "jobs")

			d = open(t, opts)
			for range calls {
				page, err := d.Find(t.Context(), driver.Query{Queues: []string{""}, Scope: "scope", Holding: true, Latest: true}, driver.PageRequest{Limit: 1})
				require.NoError(t, err)
				require.Len(t, page.Records, 1)
				require.Equal(t, "holder", page.Records[0].JobID())
			}
			perCall := (tuplesRead(t, conn, d, schema, "jobs") - before) / calls
			t.Logf("%d rows and index entries read a call", perCall)
			assert.Less(t, perCall, 100)
		})
	}
}

// multiply adds copies of a job.
func multiply(t *testing.T, conn *pgx.Conn, schema, id string, n int) {
	t.Helper()
	var columns string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT string_agg(column_name, ', ') FROM information_schema.columns
		WHERE table_schema = $1 AND table_name = 'jobs' AND column_name NOT IN ('seq', 'job_id')`, schema).Scan(&columns))
	execute(t, conn, fmt.Sprintf(`INSERT INTO %[1]s.jobs (seq, job_id, %[2]s) SELECT nextval('%[1]s.arrivals'), job_id || n, %[2]s
		FROM %[1]s.jobs, generate_series(1, %[4]d) AS n WHERE job_id = '%[3]s'`, schema, columns, id, n))
	execute(t, conn, fmt.Sprintf(`INSERT INTO %[1]s.tallies (queue, now, n) SELECT queue, place, %[3]d FROM %[1]s.jobs WHERE job_id = '%[2]s'`, schema, id, n))
}

// tuplesRead closes a driver, and returns how many rows and index entries of a table were read since
// the schema was made.
func tuplesRead(t *testing.T, conn *pgx.Conn, d *postgres.Driver, schema, table string) (n int) {
	t.Helper()
	require.NoError(t, d.Close(t.Context()))
	require.Eventually(t, func() bool { // the server counts what a connection did when it ends
		var connections int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", schema).Scan(&connections)
		return err == nil && connections == 0
	}, time.Minute, time.Millisecond)
	// What this test has read is counted with some delay, except by servers that are older than the function.
	_, _ = conn.Exec(t.Context(), "SELECT pg_stat_force_next_flush()")
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT (t.seq_tup_read + i.read)::bigint FROM pg_stat_user_tables t,
		(SELECT sum(idx_tup_read) AS read FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname = $2) i
		WHERE schemaname = $1 AND relname = $2`, schema, table).Scan(&n))
	return n
}

// runMany runs jobs, one in ten of which are due later, and does what a process does besides that.
func runMany(t *testing.T, d *postgres.Driver, jobs int) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	for done := 0; done < jobs; {
		records := make([]*driver.Record, 100)
		for i := range records {
			records[i] = newRecord(fmt.Sprint("job ", done+i))
			if i%10 == 0 {
				records[i].TimeInfo.WaitUntil = now.Add(time.Second)
			}
		}
		insert(ctx, t, d, records...)
		for range 4 {
			now = now.Add(10 * time.Second)
			got, _ := claimAt(t, d, 30, now)
			var leases []driver.Lease
			var completions []driver.Completion
			for _, r := range got {
				leases = append(leases, driver.LeaseOf(r))
				r.Status.Completed, r.ForgetAt = true, now
				completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
			}
			lost, err := d.Extend(ctx, leases, time.Minute)
			require.NoError(t, err)
			require.Empty(t, lost)
			errs, err := d.Complete(ctx, completions)
			require.NoError(t, errors.Join(append(slices.Clone(errs), err)...))
			done += len(got)
		}
	}
	_, err := d.RecoverStale(context.WithoutCancel(ctx))
	require.NoError(t, err)
	forgotten, err := d.Forget(ctx, now.Add(time.Second), 2*jobs)
	require.NoError(t, err)
	require.Equal(t, jobs, forgotten)
	_, err = d.Work(ctx, now)
	require.NoError(t, err)
	_, err = d.Stats(ctx, "")
	require.NoError(t, err)
}
