// Package sqlite is a driver that keeps records in a database file. It needs no
// server and no C compiler, and its records survive the process.
//
// Several processes may open the same file, and several queues may share it.
// The file must be on a local disk: SQLite's write-ahead log does not work over
// a network.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// The values that an Options field of zero stands for.
const (
	DefaultQueue        = "default"
	DefaultSynchronous  = SynchronousNormal
	DefaultKeepFinished = 10_000
	DefaultBusyTimeout  = 5 * time.Second
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

// ErrOutcomeUnknown is wrapped, beside the context's error, by the error of a
// write whose context ended while it was being written: it may have been written
// or not. A context that ends before that gives the context's error alone, and
// then nothing was changed.
var ErrOutcomeUnknown = errors.New("the context ended while the change was being written; it may be stored or not")

// Options describe the file of a Driver, and what is kept in it.
type Options struct {
	// Path is that of the file. It is made where there is none; its directory
	// must exist.
	Path string
	// Queue names the queue in the file, DefaultQueue where it is empty.
	// Drivers with different names share nothing but the file.
	Queue string
	// Synchronous is SynchronousNormal or SynchronousFull, the former where it
	// is empty.
	Synchronous string
	// KeepFinished is the number of finished records that are kept; the oldest
	// are forgotten first, a hundredth of the number at a time, so that there
	// may be that many more. 0 means DefaultKeepFinished; it must not be
	// negative.
	KeepFinished int
	// BusyTimeout is the longest that a write waits for those of other
	// processes, after which it fails. 0 means DefaultBusyTimeout; it must be
	// at least a millisecond.
	BusyTimeout time.Duration
}

// withDefaults checks the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.Queue == "" {
		o.Queue = DefaultQueue
	}
	if o.Synchronous == "" {
		o.Synchronous = DefaultSynchronous
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = DefaultKeepFinished
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = DefaultBusyTimeout
	}
	switch {
	case o.Path == "" || o.Path == ":memory:":
		return o, fmt.Errorf("invalid sqlite driver options: Path must name a file (is %q)", o.Path)
	case o.Synchronous != SynchronousNormal && o.Synchronous != SynchronousFull:
		return o, fmt.Errorf("invalid sqlite driver options: Synchronous must be %q or %q (is %q)", SynchronousNormal, SynchronousFull, o.Synchronous)
	case o.KeepFinished < 0:
		return o, fmt.Errorf("invalid sqlite driver options: KeepFinished must not be negative (is %d)", o.KeepFinished)
	case o.BusyTimeout < time.Millisecond:
		return o, fmt.Errorf("invalid sqlite driver options: BusyTimeout must be at least 1ms (is %s)", o.BusyTimeout)
	}
	return o, nil
}

// Driver keeps the records of one queue in a file. It is safe for concurrent
// use. Changes that are made at the same time are written together.
type Driver struct {
	opts   Options
	queue  int64 // its key in the file
	reads  *sql.DB
	writer *writer

	watch       *watch
	subscribers driver.Subscribers

	closing  sync.Once
	closed   chan struct{} // closed when Close has been called
	done     chan struct{} // closed when everything is freed
	closeErr error         // set before done is closed
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Notifier = (*Driver)(nil)
)

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
		return nil, fmt.Errorf("opening queue %q in %q: %w", opts.Queue, opts.Path, err)
	}
	d := &Driver{
		opts:   opts,
		queue:  f.queue,
		reads:  f.reads,
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	d.writer, err = newWriter(ctx, f, opts.KeepFinished, d.subscribers.Notify)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening queue %q in %q: %w", opts.Queue, opts.Path, err), f.close())
	}
	d.watch = startWatch(ctx, f.path, d.writer.checkOthers)
	return d, nil
}

// Subscribe implements driver.Notifier. notify is called after changes that this
// driver wrote, and after those that another one wrote, in this process or
// another. On Linux and Windows the latter are seen when they are made. On other
// systems, and where the directory can't be watched, it is looked for them every
// 50 milliseconds.
func (d *Driver) Subscribe(notify func()) (cancel func()) { return d.subscribers.Subscribe(notify) }

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
		return fmt.Errorf("closing queue %q in %q: %w", d.opts.Queue, d.opts.Path, ctx.Err())
	}
}

// free ends the goroutines and closes the connections.
func (d *Driver) free() {
	err := errors.Join(d.watch.close(), d.writer.close(), d.reads.Close())
	if err != nil {
		d.closeErr = fmt.Errorf("closing queue %q in %q: %w", d.opts.Queue, d.opts.Path, err)
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
