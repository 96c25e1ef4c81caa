// Package riverjob is a driver that runs the jobs in the tables of River, the job queue for Go and
// PostgreSQL (https://riverqueue.com). Programs in any language insert jobs with River's clients or
// with SQL; a queue over this driver runs them, and their rows show what River's tools expect.
//
// The driver works on the rows of river_job themselves. It copies nothing, so a job has one owner:
// the worker that set its row to running. See docs/guides/migrate-from-river.md for how to use it, and for
// the reasons.
//
// # Leases
//
// The lease of a running job is its row. Each claim adds an entry to attempted_by that names the
// owner, a number that grows with each claim of the job, and the length of the lease. The lease
// lasts for that length from attempted_at, by the clock of the server, and a renewal sets
// attempted_at. So River's rescuer, which takes a job that has run for an hour since attempted_at
// for stuck, does not touch a live job. Every change of a running job requires its own entry to be
// the last one.
package riverjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// The defaults of Options, which are those of River.
const (
	DefaultKeepCompleted = 24 * time.Hour
	DefaultKeepCancelled = 24 * time.Hour
	DefaultKeepDiscarded = 7 * 24 * time.Hour
)

// KeepForever makes the driver remove none of the jobs of a state.
const KeepForever time.Duration = -1

// maxName is the maximum length of the name of a queue or a kind in River's tables, in characters.
const maxName = 127

// Options describe River's database and which of its jobs to run. Queues, and one of URL and Pool,
// are required.
type Options struct {
	// URL is a connection string such as postgres://user@host/database, with the settings of
	// pgxpool (for instance pool_max_conns). The driver opens a pool, and closes it when it is
	// closed. An idle connection that does not answer within pool_ping_timeout (here 2s by default) is
	// replaced. Errors contain no password of the URL.
	URL string
	// Pool is an open pool. The caller owns it and must keep it open as long as the driver. It should
	// have a PingTimeout, so that calls don't wait for connections that a firewall dropped.
	// The driver opens one more connection with the same settings, which listens for
	// notifications.
	Pool *pgxpool.Pool
	// Schema is the name of the PostgreSQL schema that holds River's tables. Empty means the
	// first schema of the search path that does.
	Schema string
	// Queues are the names of River's queues whose jobs are run. No process of River may work
	// any of them: it would fail the jobs whose kind it does not know.
	Queues []string
	// Kinds are the kinds of jobs that are run. Empty means all. Jobs of a kind without a
	// definition stay as they are. In a queue with jobs of such kinds, a job that gets a time more than five seconds
	// in the past may be noticed ten seconds late.
	Kinds []string
	// KeepCompleted, KeepCancelled and KeepDiscarded are how long jobs of Queues are kept after
	// they ended in a state. 0 means the default, and KeepForever that they are never removed. A
	// process of River on the same database removes jobs by its own settings too.
	KeepCompleted, KeepCancelled, KeepDiscarded time.Duration
	// PollOnly is for poolers in transaction mode, such as PgBouncer: the driver does not
	// listen, and keeps no prepared statements. Jobs, cancellations and pauses are then noticed
	// within a second. If Pool is given, its connections must not keep prepared statements
	// either (pgx.QueryExecModeCacheDescribe or Exec).
	PollOnly bool
}

func (o Options) withDefaults() (Options, error) {
	invalid := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("invalid riverjob driver options: "+format, args...)
	}
	switch {
	case o.URL == "" && o.Pool == nil:
		return invalid("URL or Pool must be set")
	case o.URL != "" && o.Pool != nil:
		return invalid("only one of URL and Pool may be set")
	case len(o.Queues) == 0:
		return invalid("Queues must name the queues of River whose jobs are run")
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"Queues", o.Queues}, {"Kinds", o.Kinds}} {
		for i, name := range list.names {
			if name == "" || len([]rune(name)) > maxName || strings.ContainsRune(name, 0) {
				return invalid("each of %s must have 1 to %d characters (one is %q)", list.field, maxName, name)
			}
			if slices.Contains(list.names[:i], name) {
				return invalid("%s must name each only once (names %q twice)", list.field, name)
			}
		}
	}
	for _, keep := range []struct {
		field    string
		time     *time.Duration
		byRiver  time.Duration
		negative bool
	}{
		{field: "KeepCompleted", time: &o.KeepCompleted, byRiver: DefaultKeepCompleted},
		{field: "KeepCancelled", time: &o.KeepCancelled, byRiver: DefaultKeepCancelled},
		{field: "KeepDiscarded", time: &o.KeepDiscarded, byRiver: DefaultKeepDiscarded},
	} {
		if *keep.time < 0 && *keep.time != KeepForever {
			return invalid("%s must not be negative, except KeepForever (is %s)", keep.field, *keep.time)
		}
		if *keep.time == 0 {
			*keep.time = keep.byRiver
		}
	}
	o.Queues, o.Kinds = slices.Clone(o.Queues), slices.Clone(o.Kinds)
	return o, nil
}

// Driver runs the jobs of some of River's queues. It is safe for concurrent use.
//
// It runs jobs, and takes none: Insert refuses every record. River's tables have no place for
// scopes, dependencies, dispatch-by times, rates and limits. What processes announce about
// themselves (see driver.Note) is kept in memory, so that a process shows only itself.
type Driver struct {
	opts   Options
	schema string // the real name
	pool   *pgxpool.Pool
	named  *strings.Replacer

	failover pgconnect.Failover
	// identity is the last known identity of the database; see callersTransaction.
	identity atomic.Pointer[identity]

	// beside keeps what River's tables have no place for, in memory.
	beside      *memory.Driver
	subscribers driver.Subscribers
	floors      allFloors
	// claimed holds the metadata of running jobs as it was claimed, by lease. RecoverStale drops what was left.
	claimed sync.Map

	closed atomic.Bool
	once   sync.Once
	stop   context.CancelFunc
	all    sync.WaitGroup
	done   chan struct{} // closed when everything is freed
}

var (
	_ driver.Driver           = (*Driver)(nil)
	_ driver.UnfinishedSummer = (*Driver)(nil)
	_ driver.IdleProber       = (*Driver)(nil)
)

// Open connects to River's database. It creates no table: River's own migrations do, and may be run
// while the driver is open. If River's tables are missing or older than schema version 6, if the
// server takes no writes, or the role lacks a privilege, the error describes what to do. ctx bounds
// only Open itself.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{opts: opts, pool: opts.Pool, stop: func() {}, done: make(chan struct{})}
	d.beside, err = memory.New(memory.Options{KeepFinished: 1})
	if err == nil && d.pool == nil {
		d.pool, err = pgconnect.Pool(ctx, opts.URL, opts.PollOnly)
	}
	if err == nil {
		err = d.prepare(ctx)
	}
	if err != nil {
		d.free()
		return nil, fmt.Errorf("opening River's tables: %w", explain(err))
	}
	return d, nil
}

// prepare checks the server and its tables, and starts the goroutines.
func (d *Driver) prepare(ctx context.Context) error {
	if err := pgconnect.CheckServer(ctx, d.pool); err != nil {
		return err
	}
	if err := d.findTables(ctx); err != nil {
		return err
	}
	d.named = strings.NewReplacer("{s}", pgx.Identifier{d.schema}.Sanitize())
	if err := d.touchQueues(ctx); err != nil {
		return fmt.Errorf("registering the queues in river_queue: %w", err)
	}
	if err := d.readIdentity(ctx); err != nil {
		return err
	}
	listener := d.listener()
	if !d.opts.PollOnly {
		if err := listener.Open(ctx); err != nil {
			return fmt.Errorf("listening for notifications (set Options.PollOnly behind a pooler in transaction mode): %w", err)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	if !d.opts.PollOnly {
		d.all.Go(func() { listener.Run(running) })
	}
	d.all.Go(func() { d.poll(running) })
	return nil
}

// findTables finds River's tables and checks what the driver needs of them. River's table of
// migrations may be missing, because operators use other tools, so the columns are checked.
func (d *Driver) findTables(ctx context.Context) error {
	table := "river_job"
	if d.opts.Schema != "" {
		table = pgx.Identifier{d.opts.Schema, table}.Sanitize()
	}
	var version6 bool
	err := d.pool.QueryRow(ctx, `SELECT nspname, EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'unique_states' AND NOT attisdropped)
		FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass($1)`, table).Scan(&d.schema, &version6)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && d.opts.Schema != "":
		return fmt.Errorf("schema %q has no table river_job: run River's migrations (river migrate-up --schema %s), or set Options.Schema to the schema that has it", d.opts.Schema, d.opts.Schema)
	case errors.Is(err, pgx.ErrNoRows):
		return errors.New("no schema of the search path has a table river_job: run River's migrations (river migrate-up), or set Options.Schema to the schema that has it")
	case err != nil:
		return fmt.Errorf("finding river_job: %w", err)
	case !version6:
		return fmt.Errorf("river_job of schema %q is older than schema version 6, because it has no column unique_states: run River's migrations (river migrate-up)", d.schema)
	}
	return d.checkPrivileges(ctx)
}

func (d *Driver) checkPrivileges(ctx context.Context) error {
	var missing []string
	for _, need := range []struct{ table, privilege string }{
		{"river_job", "SELECT"},
		{"river_job", "UPDATE"},
		{"river_job", "DELETE"},
		{"river_queue", "SELECT"},
		{"river_queue", "INSERT"},
		{"river_queue", "UPDATE"},
	} {
		var has bool
		name := pgx.Identifier{d.schema, need.table}.Sanitize()
		if err := d.pool.QueryRow(ctx, "SELECT has_table_privilege($1, $2)", name, need.privilege).Scan(&has); err != nil {
			return fmt.Errorf("checking the privileges on %s: %w", name, err)
		}
		if !has {
			missing = append(missing, need.privilege+" on "+name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the role lacks privileges; grant it %s, or connect as the owner of the tables", strings.Join(missing, ", "))
	}
	return nil
}

// sql names River's schema in a statement.
func (d *Driver) sql(text string) string { return d.named.Replace(text) }

// usable returns an error if ctx has ended or the driver is closed.
func (d *Driver) usable(ctx context.Context) error {
	if d.closed.Load() {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// Features implements driver.Driver.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: true, TransactionalEnds: true, Durable: true, NextAttempts: true, CostlyClaims: true}
}

// Subscribe implements driver.Driver. The calls for changes by others come from notifications, and
// at least once a second.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// Close closes the connections that the driver opened. Calls return driver.ErrClosed from then on.
// If ctx ends first, Close returns its error, and closing continues in the background; Close can be
// called again to wait for it. Close of a nil driver does nothing.
func (d *Driver) Close(ctx context.Context) error {
	if d == nil {
		return nil // a driver.Driver holds it after a failed Open
	}
	d.once.Do(func() {
		d.closed.Store(true)
		d.stop()
		go func() {
			d.free()
			close(d.done)
		}()
	})
	select {
	case <-d.done:
		return nil
	default:
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing River's tables: %w", ctx.Err())
	}
}

// free waits for the goroutines, and for the connections of a pool that the driver opened.
func (d *Driver) free() {
	d.stop()
	d.all.Wait()
	if d.opts.Pool == nil && d.pool != nil {
		d.pool.Close()
	}
}
