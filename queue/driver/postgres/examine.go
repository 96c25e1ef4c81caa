package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

var _ driver.Examiner = (*Driver)(nil)

const (
	// manyDead is the number of dead rows from which a table is bloated, if fewer rows are live.
	manyDead = 100_000
	// oldTransaction is how long a transaction may be open.
	oldTransaction = time.Hour
	// muchRetained is the number of bytes of the write-ahead log that a replication slot may
	// keep while nothing reads it.
	muchRetained = 1 << 30
	// measuredLeases is the number of rows of leases whose jobs show the clocks of processes.
	measuredLeases = 100
)

// indexText finds the statements of the migrations that make indexes.
var indexText = regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX (\w+) ON [^;]*;`)

// isDropped reports whether a migration drops an index.
func isDropped(index string) bool {
	return slices.ContainsFunc(migrations, func(m migration) bool { return strings.Contains(m.sql, "DROP INDEX {s}."+index+";") })
}

// Examine implements driver.Examiner. It reads the catalog, the statistics of the server, and
// jobs of the latest leases.
func (d *Driver) Examine(ctx context.Context) (driver.Condition, error) {
	return d.examine(ctx, oldTransaction)
}

// examine finds transactions that have been open for longer than old.
func (d *Driver) examine(ctx context.Context, old time.Duration) (driver.Condition, error) {
	x := &examination{Driver: d, condition: driver.Condition{OwnersAhead: map[string]time.Duration{}}}
	for _, part := range []struct {
		doing string
		run   func(context.Context) error
	}{
		{"reading the indexes", x.findMissingIndexes},
		{"reading the numbers of dead rows", x.findBloat},
		{"reading the ages of transactions", func(ctx context.Context) error { return x.findOldTransactions(ctx, old) }},
		{"reading the replication slots", x.findUnreadSlots},
		{"comparing the clocks", x.compareOwnersClocks},
		{"reading expired leases", x.findExpiredLeases},
		{"reading the clock", x.compareClock},
	} {
		if err := part.run(ctx); err != nil {
			return driver.Condition{}, fmt.Errorf("examining schema %q: %s: %w", d.opts.Schema, part.doing, err)
		}
	}
	return x.condition, nil
}

// examination is a call of Examine.
type examination struct {
	*Driver
	condition driver.Condition
}

func (x *examination) add(found ...driver.Defect) {
	x.condition.Defects = append(x.condition.Defects, found...)
}

func (x *examination) findMissingIndexes(ctx context.Context) error {
	const text = `SELECT c.relname::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1`
	valid := map[string]bool{}
	err := x.readText(ctx, text, func(r *row) error {
		valid[r.text()] = r.bool()
		return nil
	}, x.opts.Schema)
	if err == nil {
		x.add(x.missingIndexes(valid)...)
	}
	return err
}

func (x *examination) findBloat(ctx context.Context) error {
	const text = `SELECT relname::text, n_dead_tup, n_live_tup FROM pg_stat_user_tables
		WHERE schemaname = $1 AND n_dead_tup >= $2 AND n_dead_tup > n_live_tup ORDER BY 1`
	return x.readText(ctx, text, func(r *row) error {
		x.add(x.bloat(r.text(), r.int(), r.int()))
		return nil
	}, x.opts.Schema, manyDead)
}

func (x *examination) findOldTransactions(ctx context.Context, old time.Duration) error {
	const text = `SELECT pid::bigint, extract(epoch FROM clock_timestamp() - xact_start)::bigint FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND xact_start < clock_timestamp() - make_interval(secs => $1)
		ORDER BY xact_start LIMIT 10`
	return x.readText(ctx, text, func(r *row) error {
		x.add(transactionDefect(r.int(), time.Duration(r.int())*time.Second))
		return nil
	}, old.Seconds())
}

func (x *examination) findUnreadSlots(ctx context.Context) error {
	const text = `SELECT slot_name::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots
		WHERE NOT active AND restart_lsn IS NOT NULL AND pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) >= $1::bigint ORDER BY 1 LIMIT 10`
	return x.readText(ctx, text, func(r *row) error {
		x.add(slotDefect(r.text(), r.int()))
		return nil
	}, muchRetained)
}

// compareOwnersClocks compares the clocks of processes with that of the server. A renewal sets
// mod_time by the clock of the owner, and lease_until by that of the server. A lock that the job's
// own code took moves only lease_until, by a part of the lease. So an owner counts as behind only if
// it is behind by more than half of the lease.
func (x *examination) compareOwnersClocks(ctx context.Context) error {
	text := x.inSchema(`SELECT owner, max(mod_time - (lease_until - lease_time)), max(lease_time) FROM {s}.jobs
		WHERE place = 6 AND lease_time > 0 AND seq IN (SELECT unnest(seqs) FROM (SELECT seqs FROM {s}.leases ORDER BY until DESC LIMIT $1) AS latest)
		GROUP BY owner`)
	return x.readText(ctx, text, func(r *row) error {
		owner, ahead, leaseTime := r.text(), time.Duration(r.integer()), time.Duration(r.integer())
		if ahead >= 0 || -ahead > leaseTime/2 {
			x.condition.OwnersAhead[owner] = ahead
		}
		return nil
	}, measuredLeases)
}

func (x *examination) findExpiredLeases(ctx context.Context) error {
	text := x.inSchema(`SELECT (SELECT name FROM {s}.queues q WHERE q.id = j.queue), job_id, owner, lease_until FROM {s}.jobs j
		WHERE place = 6 AND lease_until + lease_time + lease_time / 2 + $1::bigint < ` + serverNow + `
		AND seq IN (SELECT unnest(seqs) FROM (SELECT seqs FROM {s}.leases WHERE until < ` + serverNow + ` - $1::bigint ORDER BY until LIMIT 1000) AS first)
		ORDER BY lease_until LIMIT $2`)
	return x.readText(ctx, text, func(r *row) error {
		x.condition.Expired = append(x.condition.Expired, driver.ExpiredLease{
			Queue: r.text(), JobID: r.text(), Owner: r.text(), Ended: table.TimeOf(r.time()),
		})
		return nil
	}, int64(driver.ExpiredGrace(0)), driver.MaxExpired)
}

// compareClock compares the clock of this process with that of the server.
func (x *examination) compareClock(ctx context.Context) error {
	asked := time.Now()
	return x.readText(ctx, `SELECT `+serverNow, func(r *row) error {
		x.condition.ClockAhead = driver.ClockAhead(time.Unix(0, r.integer()), asked, time.Now())
		return nil
	})
}

// missingIndexes returns the indexes that are not among the valid ones.
func (d *Driver) missingIndexes(valid map[string]bool) (missing []driver.Defect) {
	for _, step := range migrations {
		for _, index := range indexText.FindAllStringSubmatch(step.sql, -1) {
			name, text := index[1], d.inSchema(index[0])
			isValid, exists := valid[name]
			switch {
			case isDropped(name):
			case !exists:
				missing = append(missing, driver.Defect{
					Kind:    driver.MissingIndex,
					Name:    name,
					Detail:  "The index " + name + " does not exist.",
					Remedy:  "Make the index, as the owner of the schema. Services may go on meanwhile.",
					Command: strings.Replace(text, "INDEX", "INDEX CONCURRENTLY", 1),
				})
			case !isValid:
				missing = append(missing, driver.Defect{
					Kind:    driver.MissingIndex,
					Name:    name,
					Detail:  "The index " + name + " is not valid: it is being built, or its build failed.",
					Remedy:  "If it is not being built, build it again. Services may go on meanwhile.",
					Command: "REINDEX INDEX CONCURRENTLY " + pgx.Identifier{d.opts.Schema, name}.Sanitize() + ";",
				})
			}
		}
	}
	return missing
}

func (d *Driver) bloat(name string, dead, live int) driver.Defect {
	return driver.Defect{
		Kind:    driver.Bloat,
		Name:    name,
		Detail:  fmt.Sprintf("The table %s has %d dead rows and %d live ones.", name, dead, live),
		Remedy:  "Find out what keeps autovacuum from the table: it is turned off or too slow, or a transaction is old. Remedy that, and vacuum the table once.",
		Command: "VACUUM (VERBOSE) " + pgx.Identifier{d.opts.Schema, name}.Sanitize() + ";",
	}
}

func transactionDefect(pid int, age time.Duration) driver.Defect {
	return driver.Defect{
		Kind:    driver.OldTransaction,
		Name:    fmt.Sprintf("process %d of the server", pid),
		Detail:  fmt.Sprintf("Process %d of the server has a transaction open since %s.", pid, age),
		Remedy:  "Find out which program it is (pg_stat_activity). If it is not needed, end it.",
		Command: fmt.Sprintf("SELECT pg_terminate_backend(%d);", pid),
	}
}

func slotDefect(slot string, retained int) driver.Defect {
	return driver.Defect{
		Kind:   driver.LargeLog,
		Name:   slot,
		Detail: fmt.Sprintf("The replication slot %s keeps %d MB of the write-ahead log, and nothing reads it.", slot, retained>>20),
		Remedy: "Start the replica that uses the slot, or drop the slot (pg_drop_replication_slot) if the replica no longer exists.",
	}
}
