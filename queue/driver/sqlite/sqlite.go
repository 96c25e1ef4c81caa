// Package sqlite is a driver that keeps records in a database file. It needs no
// server and no C compiler, and its records survive the process.
//
// A file holds any number of queues, and several processes may open it.
// The file must be on a local disk: SQLite's write-ahead log does not work over
// a network.
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

// The values that an Options field of zero stands for.
const (
	DefaultSynchronous  = SynchronousNormal
	DefaultKeepFinished = 100_000
)

// The values of Options.Synchronous.
const (
	// SynchronousNormal keeps everything when the process dies. When the
	// machine dies the last writes may be lost, and the file stays whole.
	SynchronousNormal = "NORMAL"
	// SynchronousFull keeps everything when the machine dies too, at the cost
	// of waiting for the disk on each write.
	SynchronousFull = "FULL"
)

// Options describe the file of a Driver, and what is kept in it.
type Options struct {
	// Path is that of the file. It is made where there is none; its directory
	// must exist.
	Path string
	// Synchronous is SynchronousNormal or SynchronousFull, the former where it
	// is empty.
	Synchronous string
	// KeepFinished is the number of records of a queue that ended for good and
	// are kept. Forget removes those beyond it, whether their time has come or
	// not. 0 means DefaultKeepFinished; it must not be negative.
	KeepFinished int
}

// withDefaults checks the options and fills in the defaults.
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
// Changes that are made at the same time are written together. A change waits for
// as long as its context lives while another process has the right to write. One
// whose context ends while it is being written waits for that, for a second at
// most: then its error wraps driver.ErrOutcomeUnknown. One whose context ends
// before that has the context's error alone, and has changed nothing.
type Driver struct {
	opts   Options
	path   string // absolute
	reads  *reader
	looks  *looker
	writer *writer

	// mayHaveMore is true where a claim is likely to find something, so that it
	// need not look before: the last one gave as many records as it was to, or
	// some were inserted.
	mayHaveMore atomic.Bool

	// elapsed is the clock by which leases are measured, and seen are those that this
	// driver has seen.
	elapsed func() time.Duration
	seen    sightings.Log[lease]

	watch       *watch
	subscribers driver.Subscribers

	closing  sync.Once
	closed   chan struct{} // closed when Close has been called
	done     chan struct{} // closed when everything is freed
	closeErr error         // set before done is closed
}

var _ driver.Driver = (*Driver)(nil)

// Open opens the file, makes it where there is none, and brings it to the schema
// of this version. It returns an error for invalid options, an *NewerSchemaError
// for a file that a newer version of this library wrote, and an error for a file
// that is something else or can't be written. ctx bounds Open alone.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := openFile(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", opts.Path, err)
	}
	d := &Driver{
		opts:   opts,
		path:   f.path,
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	opened := time.Now()
	d.elapsed = func() time.Duration { return time.Since(opened) }
	d.reads = newReader(f.reads, d.isClosed)
	d.looks = newLooker(f.looks, d.closed)
	d.writer, err = newWriter(ctx, f.path, f.writes, d.subscribers.Notify)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %q: %w", opts.Path, err), f.close())
	}
	d.watch = startWatch(ctx, f.path, d.writer.checkOthers)
	return d, nil
}

// Features implements driver.Driver: it has all.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: true, Transactions: true, TransactionalEnds: true, Durable: true, NextAttempts: true}
}

// Subscribe implements driver.Driver. notify is called after changes that this
// driver wrote, and after those that another one wrote, in this process or
// another, which it can't tell from notes that the other one kept: these are as good
// as a change then. On Linux and Windows the latter are seen when they are made. On other
// systems, and where the directory can't be watched, it is looked for them every
// 50 milliseconds.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// Close stops the writing and closes the file. Writes that have begun are
// finished, all other calls get driver.ErrClosed. Where ctx ends first, Close
// returns its error, and closing goes on; Close can be called again to wait.
func (d *Driver) Close(ctx context.Context) error {
	d.closing.Do(func() {
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

// free ends the goroutines and closes the connections.
func (d *Driver) free() {
	err := errors.Join(d.watch.close(), d.looks.close(), d.writer.close(), d.reads.close())
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
