// Package sqlite is a driver that keeps records in a database file. It needs no
// server and no C compiler, and its records survive the process.
//
// A file holds any number of queues, and several processes may open it.
// The file must be on a local disk: SQLite's write-ahead log does not work over
// a network. Open refuses NFS, SMB, 9p and others where the system says so: on Linux
// (there also FUSE, unless it is known to be local), macOS and Windows.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/sightings"
)

// The defaults of the fields of Options.
const (
	DefaultSynchronous  = SynchronousNormal
	DefaultKeepFinished = 100_000
)

// The values of Options.Synchronous.
const (
	// SynchronousNormal keeps all data if the process dies. If the machine dies, the
	// last writes may be lost, but the file stays consistent.
	SynchronousNormal = "NORMAL"
	// SynchronousFull also keeps all data if the machine dies, at the cost of waiting
	// for the disk on each write.
	SynchronousFull = "FULL"
)

// Options configure the file of a Driver and its retention.
type Options struct {
	// Path is the path of the file. The file is created if it does not exist; its
	// directory must exist.
	Path string
	// Synchronous is SynchronousNormal or SynchronousFull. Empty means
	// SynchronousNormal.
	Synchronous string
	// KeepFinished is the maximum number of finished records that a queue keeps. Forget
	// removes the oldest beyond it, even if their retention is not over. 0 means
	// DefaultKeepFinished; it must not be negative.
	KeepFinished int
	// AllowNetworkFileSystem lets Open open a file on a network file system, which it
	// refuses otherwise. There, machines that use the file at the same time lose jobs or
	// damage the file; a single machine may do so when it loses the connection.
	AllowNetworkFileSystem bool
	// SkipMigrations makes Open neither create nor migrate the file, and return an error unless
	// it exists and has the schema of this version.
	SkipMigrations bool
}

// withDefaults validates the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.Synchronous == "" {
		o.Synchronous = DefaultSynchronous
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = DefaultKeepFinished
	}
	switch {
	case o.Path == "" || o.Path == ":memory:":
		return o, fmt.Errorf("invalid sqlite driver options: Path must name a file (is %q)", o.Path)
	case o.Synchronous != SynchronousNormal && o.Synchronous != SynchronousFull:
		return o, fmt.Errorf("invalid sqlite driver options: Synchronous must be %q or %q (is %q)", SynchronousNormal, SynchronousFull, o.Synchronous)
	case o.KeepFinished < 0:
		return o, fmt.Errorf("invalid sqlite driver options: KeepFinished must not be negative (is %d)", o.KeepFinished)
	}
	return o, nil
}

// Driver keeps the records of queues in a file. It is safe for concurrent use.
// Concurrent changes are written in one transaction. While another process has the right
// to write, a change waits until its context ends, and that of a running job for at most ten
// seconds (see WithTx). If the context ends before the change is being written, the error is
// the context's error and nothing has changed. If it ends during the write, the call waits for
// at most one more second, and then returns an error that wraps driver.ErrOutcomeUnknown.
//
// Changes fail with an error that wraps ErrFileLost after the file was deleted, moved or
// replaced, ErrNewerSchema after a newer version of this library has migrated it, and
// ErrDamaged if it turns out to be damaged. Reads go on as far as they can.
type Driver struct {
	opts       Options
	path       string // absolute
	reads      *reader
	claimQuery *claimQuery
	searches   *connections
	writer     *writer

	// mayHaveMore is true if a claim is likely to find something, so that it does not
	// have to query before: the last claim reached its limit, or records were inserted.
	mayHaveMore atomic.Bool
	starts      starts

	// elapsed is the clock that measures leases, and seen holds the leases that this
	// driver has observed.
	elapsed func() time.Duration
	// rateNow is the clock that measures rates, in nanoseconds, which all processes share.
	rateNow func() int64
	seen    sightings.Log[lease]
	holders *holders

	// workAtOnce is the constant of that name; tests set a smaller one.
	workAtOnce int

	watch       *watch
	subscribers driver.Subscribers

	closing  sync.Once
	closed   chan struct{} // closed when Close has been called
	done     chan struct{} // closed when everything is freed
	closeErr error         // set before done is closed
}

var _ driver.Driver = (*Driver)(nil)

// Open opens the file, creates it if it does not exist, and migrates it to the schema of this
// version, unless Options.SkipMigrations is set. A new file can be read and written by its owner
// only; the mode of a file that exists stays. Open returns an error if the options are invalid, a
// *NewerSchemaError if a newer version of this library wrote the file, an error that wraps
// ErrNetworkFileSystem if it is on a network file system, one that wraps ErrDamaged if it is no
// database or is found to be damaged (Open does not read all of it: see Check), and an error if the
// file is not a queue file or can't be written. ctx bounds only Open itself.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := openFile(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", opts.Path, named(err))
	}
	d := &Driver{
		opts:       opts,
		path:       f.path,
		workAtOnce: workAtOnce,
		closed:     make(chan struct{}),
		done:       make(chan struct{}),
	}
	opened := time.Now()
	d.elapsed = func() time.Duration { return time.Since(opened) }
	d.rateNow = func() int64 { return time.Now().UnixNano() }
	d.reads = newReader(f.reads, d.isClosed)
	d.claimQuery = &claimQuery{newConnections(d.closed, f.claimReads)}
	d.searches = newConnections(d.closed, f.searches...)
	d.writer, err = newWriter(ctx, f.path, f.writes, d.subscribers.Notify)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %q: %w", opts.Path, named(err)), f.close())
	}
	d.holders = openHolders(ctx, f.path)
	d.watch = startWatch(ctx, f.path, d.writer.checkOthers)
	return d, nil
}

// Features implements driver.Driver. All features are supported.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: true, Transactions: true, TransactionalEnds: true, Durable: true, Prunes: true, NextAttempts: true, Limits: true}
}

// Subscribe implements driver.Driver. notify is called after changes that this driver
// or another one wrote, in this process or another. Notes that another driver kept can't
// be distinguished from changes and are reported too. On Linux and Windows, writes of
// other drivers are noticed when they are made. On other systems, or if the directory
// can't be watched, the file is checked every 50 milliseconds.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// Close stops the writer and closes the file. Writes that have begun are finished; all
// other calls return driver.ErrClosed. If ctx ends first, Close returns its error, and
// closing continues in the background; Close can be called again to wait for it. Close of a nil
// driver does nothing.
func (d *Driver) Close(ctx context.Context) error {
	if d == nil {
		return nil // a driver.Driver holds it after a failed Open
	}
	d.closing.Do(func() { //nolint:contextcheck // Closing goes on after ctx has ended.
		close(d.closed)
		go d.free()
	})
	select {
	case <-d.done:
		return d.closeErr
	default:
	}
	select {
	case <-d.done:
		return d.closeErr
	case <-ctx.Done():
		return fmt.Errorf("closing %q: %w", d.opts.Path, ctx.Err())
	}
}

// free stops the goroutines and closes the connections.
func (d *Driver) free() {
	d.retire()
	err := errors.Join(d.watch.close(), d.claimQuery.close(), d.searches.close(), d.writer.close(), d.reads.close(), d.holders.close())
	if err != nil {
		d.closeErr = fmt.Errorf("closing %q: %w", d.opts.Path, err)
	}
	close(d.done)
}

func (d *Driver) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}
