// Package postgres is a driver that keeps records in a PostgreSQL database.
//
// A schema holds any number of queues, and any number of processes may open it. See
// docs/guides/use-postgresql.md for how to operate it, and docs/internals/postgresql.md for the
// layout of the tables.
//
// IDs, types, unique keys and scopes may have some 2,500 bytes, because they are in indexes. Insert
// refuses longer ones with an *amboy.InvalidJobError.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// DefaultSchema is the schema of a Driver if Options.Schema is empty.
const DefaultSchema = "amboy"

// maxSchema is the maximum length of a schema name: PostgreSQL truncates longer names.
const maxSchema = 50

// Options describe the database of a Driver. One of URL and Pool is required.
type Options struct {
	// URL is a connection string such as postgres://user@host/database, with the settings of
	// pgxpool (for instance pool_max_conns). The driver opens a pool, and closes it when it is
	// closed. An idle connection that does not answer within pool_ping_timeout (here 2s by default) is
	// replaced. Errors contain no password of the URL.
	URL string
	// Pool is an open pool. The caller owns it and must keep it open as long as the driver. It should
	// have a PingTimeout, so that calls don't wait for connections that a firewall dropped.
	// The driver opens one more connection with the same settings, which listens for
	// notifications, and for a short time another one if a caller's transaction has the first job of a
	// queue, type or priority. If the server takes no writes, as after a failover, the driver resets the pool
	// (at most once a second), so that new connections may reach the new primary.
	Pool *pgxpool.Pool
	// Schema is the name of the PostgreSQL schema that holds the tables. It consists of up to
	// 50 letters, digits and underscores. Empty means DefaultSchema.
	Schema string
	// PollOnly is for poolers in transaction mode, such as PgBouncer: the driver does not listen, and keeps no
	// prepared statements. Changes by other processes are then noticed when a queue polls; it may take 30 s
	// until a process notices that a job of another one has expired, or one that was committed more than two
	// seconds after its time. If Pool is given, its connections must not keep prepared statements either
	// (pgx.QueryExecModeCacheDescribe or DescribeExec).
	PollOnly bool
	// SkipMigrations makes Open leave the schema unchanged, and return an error unless it has
	// the current version. See Migrate.
	SkipMigrations bool
}

// withDefaults validates the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	switch {
	case o.URL == "" && o.Pool == nil:
		return o, errors.New("invalid postgres driver options: URL or Pool must be set")
	case o.URL != "" && o.Pool != nil:
		return o, errors.New("invalid postgres driver options: only one of URL and Pool may be set")
	case len(o.Schema) > maxSchema || strings.Trim(o.Schema, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
		return o, fmt.Errorf("invalid postgres driver options: Schema must have up to %d letters, digits and underscores (is %q)", maxSchema, o.Schema)
	case strings.HasPrefix(o.Schema, "pg_"):
		return o, fmt.Errorf("invalid postgres driver options: Schema must not begin with pg_, which PostgreSQL reserves (is %q)", o.Schema)
	}
	return o, nil
}

// Driver keeps the records of queues in a database. It is safe for concurrent use.
//
// Each call is one transaction, or several for many records. If its context ends, the call ends
// and its connection is closed; the error wraps driver.ErrOutcomeUnknown if the change may have
// been made.
type Driver struct {
	opts     Options
	pool     *pgxpool.Pool
	texts    [statements]string
	lockBase map[string]int64

	queueIDs, queueNames, lineIDs sync.Map
	// locked contains a lockedQueue for each queue that was found locked; see unlessLocked.
	locked  sync.Map
	blocked blockedLeases
	// alone contains the line of each queue in which no other line was found.
	alone sync.Map
	tops  *tops

	// known is the last known identity of the database; see ownIdentity.
	known atomic.Pointer[identity]

	newest         atomic.Int64  // the arrival number of the newest job that was claimed
	replanInterval time.Duration // set by tests
	workAtOnce     int           // the same
	patient        patience      // the same

	failover pgconnect.Failover

	floors      *floors
	promoter    *promoter
	due         timeFloor
	expires     timeFloor
	signals     *signals
	subscribers driver.Subscribers

	shared *sharedInserts

	calls *calls
	once  sync.Once
	done  chan struct{} // closed when everything is freed
}

var _ driver.Driver = (*Driver)(nil)

// Open connects to the database and migrates the schema to the version of this library, unless
// Options.SkipMigrations is set. It returns an error if the options are invalid, and a
// *NewerSchemaError if a newer version of this library wrote the schema. If the server is too
// old, takes no writes, or the role lacks a privilege, the error describes what to do. If a step
// of the migration fails, the steps before it remain (see Migrate). ctx bounds only Open itself.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := newDriver(opts)
	err = d.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening schema %q: %w", opts.Schema, err)
	}
	err = d.prepare(ctx)
	if err != nil {
		d.free()
		return nil, fmt.Errorf("opening schema %q: %w", opts.Schema, err)
	}
	return d, nil
}

// newDriver returns a driver that is not connected.
func newDriver(opts Options) *Driver {
	d := &Driver{opts: opts, replanInterval: replanInterval, workAtOnce: workAtOnce, patient: patient, tops: newTops(), lockBase: map[string]int64{}, calls: newCalls(), done: make(chan struct{})}
	for _, kind := range []string{lockOfQueue, lockOfInserts, lockOfPromotions, lockOfClaims, lockOfSchema} {
		d.lockBase[kind] = lockBase(opts.Schema, kind)
	}
	d.shared = newSharedInserts(d)
	named := strings.NewReplacer("{s}", pgx.Identifier{opts.Schema}.Sanitize())
	for i, text := range &statementTexts {
		d.texts[i] = named.Replace(text)
	}
	return d
}

// connect opens the pool, or uses the caller's.
func (d *Driver) connect(ctx context.Context) (err error) {
	if d.opts.Pool != nil {
		d.pool = d.opts.Pool
		return nil
	}
	d.pool, err = pgconnect.Pool(ctx, d.opts.URL, d.opts.PollOnly)
	return err
}

// prepare checks the server and the schema, and starts the background goroutines.
func (d *Driver) prepare(ctx context.Context) error {
	err := pgconnect.CheckServer(ctx, d.pool)
	if err == nil && !d.opts.SkipMigrations {
		_, err = d.migrate(ctx, false)
	}
	if err == nil {
		err = d.checkVersion(ctx)
	}
	if err == nil {
		_, err = d.readIdentity(ctx)
	}
	if err != nil {
		return d.explain(err)
	}
	d.floors, d.promoter = newFloors(d), newPromoter(d)
	d.signals, err = startSignals(ctx, d)
	return err
}

// Features implements driver.Driver. All features are supported, except Notifications if
// Options.PollOnly is set.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: !d.opts.PollOnly, Transactions: true, TransactionalEnds: true, Durable: true, NextAttempts: true, Limits: true}
}

// Subscribe implements driver.Driver. If Options.PollOnly is set, notify is called only after
// changes of this driver.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// changed notifies the subscribers of all processes of a change.
func (d *Driver) changed(news driver.Change) {
	d.subscribers.Notify(news)
	d.signals.send(news.MayClaim)
}

// reader returns a querier whose statements are transactions of their own.
func (d *Driver) reader() querier { return poolQuerier{pgxQuerier{d.pool}} }

func (d *Driver) isClosed() bool { return d.calls.isClosed() }

// begin begins a call. done ends it.
func (d *Driver) begin(ctx context.Context) (done func(), err error) {
	err = ctx.Err()
	if err != nil {
		return nil, err
	}
	if !d.calls.enter() {
		return nil, driver.ErrClosed
	}
	return d.calls.leave, nil
}

// read runs a read-only statement.
func (d *Driver) read(ctx context.Context, s statement, each func(*row) error, args ...any) error {
	return d.readText(ctx, d.texts[s], each, args...)
}

func (d *Driver) readText(ctx context.Context, text string, each func(*row) error, args ...any) error {
	return d.reading(ctx, func(ctx context.Context, on querier) error { return on.query(ctx, text, each, args...) })
}

// reading runs read-only statements.
func (d *Driver) reading(ctx context.Context, read func(ctx context.Context, on querier) error) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err = read(ctx, d.reader()); err != nil {
		return d.failed(ctx, err, false)
	}
	return nil
}

// Close waits for the calls that are under way, and closes the connections that the driver
// opened. All other calls return driver.ErrClosed. If ctx ends first, Close returns its error,
// and closing continues in the background; Close can be called again to wait for it. Close of a
// nil driver does nothing.
func (d *Driver) Close(ctx context.Context) error {
	if d == nil {
		return nil // a driver.Driver holds it after a failed Open
	}
	d.once.Do(func() {
		idle := d.calls.close()
		go func() {
			<-idle
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
		return fmt.Errorf("closing schema %q: %w", d.opts.Schema, ctx.Err())
	}
}

// free stops the goroutines and closes the connections.
func (d *Driver) free() {
	if d.signals != nil {
		d.signals.close()
	}
	if d.floors != nil {
		d.floors.close()
	}
	if d.promoter != nil {
		d.promoter.close()
	}
	if d.opts.Pool == nil && d.pool != nil {
		d.pool.Close()
	}
}
