package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// gatherYields is how often the writer lets others run before it begins. A
	// timer would take longer than what it saves.
	gatherYields = 10
	// transactionSize is the number of records that a transaction changes, about
	// and at most, but for a change that is larger alone: so nobody waits long
	// for those that came before.
	transactionSize = 2000
)

// settleTime is how long a call whose context has ended waits for a change that
// is being made.
var settleTime = time.Second

// writer makes all changes of a driver, in one goroutine on one connection. It
// waits for the right to write, and takes all changes that are asked for by then
// into one transaction.
type writer struct {
	ctx    context.Context // never ends
	path   string
	conn   *ownConnection
	notify func(driver.Change)
	keys   map[string]int64 // of the queues that are in the file

	mu      sync.Mutex
	closed  bool
	pending []*change
	// expected is how many callers were there when the last transaction ended.
	expected int

	wake   chan struct{} // there is something in pending, or closed
	others chan struct{} // another writer may have written
	done   chan struct{} // closed when run has ended

	// trimAt is the size from which on the log is emptied, and trimPause after how many
	// transactions that is tried in any case if it is large.
	trimAt    int64
	trimPause int

	version  int64 // the data version that was seen last
	closeErr error // set before done is closed
}

// change is what a caller asks for.
type change struct {
	// run makes the change. It may be run again, where the transaction was
	// undone. An error undoes the change.
	run func(*changes) error
	// undo makes up for the change, where the caller left before he was told;
	// nil where there is no need to.
	undo func(*changes) error
	// news is what subscribers are told of the change: nothing, if nobody may claim because
	// of it.
	news driver.Change
	// size is the number of records that it changes, about.
	size int

	state progress // guarded by writer.mu
	done  chan struct{}
	err   error // set before done is closed
}

type progress int

const (
	queued progress = iota
	underWay
	abandoned
	delivered
)

// newWriter starts the writer on a connection, which it closes at its end.
func newWriter(ctx context.Context, path string, conn *ownConnection, notify func(driver.Change)) (*writer, error) {
	w := &writer{
		ctx:    context.WithoutCancel(ctx),
		path:   path,
		conn:   conn,
		notify: notify,
		keys:   map[string]int64{},
		trimAt: largeLog,
		wake:   make(chan struct{}, 1),
		others: make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	err := w.readVersion() //nolint:contextcheck // No statement of the writer is stopped half-way.
	if err != nil {
		return nil, err
	}
	go w.run() //nolint:contextcheck // It ends with close.
	return w, nil
}

// write makes a change and waits for it. Where ctx ends first the change is not
// made, or else the error says that it is unknown whether it is.
func (w *writer) write(ctx context.Context, c *change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.done = make(chan struct{})
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return driver.ErrClosed
	}
	w.pending = append(w.pending, c)
	first, all := len(w.pending) == 1, len(w.pending) == w.expected
	w.mu.Unlock()
	if first || all {
		signal(w.wake)
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return w.abandon(ctx, c)
	}
}

// abandon withdraws a change, where that is still possible. Where it is being
// made it waits for that, as it takes milliseconds, but not for ever: the disk may
// not answer.
func (w *writer) abandon(ctx context.Context, c *change) error {
	w.mu.Lock()
	if c.state == queued {
		w.pending = slices.DeleteFunc(w.pending, func(p *change) bool { return p == c })
		w.mu.Unlock()
		return ctx.Err()
	}
	w.mu.Unlock()
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
	}
	w.mu.Lock()
	isDelivered := c.state == delivered
	if !isDelivered {
		c.state = abandoned
	}
	w.mu.Unlock()
	switch {
	case isDelivered:
		<-c.done
		return c.err
	case c.undo == nil:
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, ctx.Err())
	default:
		return ctx.Err()
	}
}

// checkOthers makes the writer look whether others have written.
func (w *writer) checkOthers() { signal(w.others) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close ends the writer, after the changes that are asked for, and waits for it.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	signal(w.wake)
	<-w.done
	return w.closeErr
}

func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case <-w.wake:
			for w.gather(); w.isWanted(); w.gather() {
				w.serve()
			}
			if w.isClosed() {
				w.closeErr = w.conn.close()
				return
			}
		case <-w.others:
			w.lookForOthers()
		}
	}
}

// gather gives callers time to come, so that one transaction serves several: those
// that were told of their changes ask for the next about now, and who ends a job
// also claims another. A lone caller is not kept waiting.
func (w *writer) gather() {
	for range gatherYields {
		w.mu.Lock()
		enough := w.closed || len(w.pending) >= max(w.expected, 2)
		w.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

// isWanted is true while somebody waits for a change that has not begun.
func (w *writer) isWanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) > 0
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// serve makes changes that are asked for, as soon as it has the right to write,
// and tells their callers.
func (w *writer) serve() {
	err := w.begin(w.isWanted)
	if errors.Is(err, errNotWanted) {
		return
	}
	batch := w.take()
	if err != nil {
		w.deliver(batch, err)
		return
	}
	err = w.transact(batch, (*changes).make)
	var failure *changeError
	if errors.As(err, &failure) && len(batch) > 1 {
		err = w.eachAlone(batch)
	}
	if undo := w.deliver(batch, err); len(undo) > 0 {
		w.undo(undo)
	}
	w.trimLog()
}

// errNotWanted says that nobody waits for a change any more.
var errNotWanted = errors.New("nobody waits for the change any more")

// begin begins a transaction with the right to write. While others have it, it
// waits for as long as that is wanted.
func (w *writer) begin(wanted func() bool) error {
	err := w.rollback() // the last one, if it could not be undone
	for err == nil {
		_, err = w.conn.exec(begin)
		if resultCode(err) != codeBusy {
			break
		}
		w.lookForOthersNow()
		switch {
		case w.isClosed():
			return driver.ErrClosed
		case !wanted():
			return errNotWanted
		}
		err = nil
	}
	if err != nil {
		return w.failed("beginning to write", err)
	}
	return nil
}

func (w *writer) failed(doing string, err error) error {
	return fmt.Errorf("%s to %q: %w", doing, w.path, err)
}

// rollback undoes a transaction, unless SQLite has done so already.
func (w *writer) rollback() error {
	if !w.conn.inTransaction() {
		return nil
	}
	_, err := w.conn.exec(rollback)
	return err
}

// take returns changes that are asked for: as many as a transaction should make.
func (w *writer) take() (batch []*change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, n := 0, 0
	for n < len(w.pending) && (n == 0 || size+w.pending[n].size <= transactionSize) {
		size += w.pending[n].size
		w.pending[n].state = underWay
		n++
	}
	batch = slices.Clone(w.pending[:n])
	w.pending = slices.Delete(w.pending, 0, n)
	return batch
}

// transact makes changes in the transaction that has begun: all of them, or none
// where it returns an error.
func (w *writer) transact(batch []*change, apply func(*changes, []*change) error) error {
	c := newChanges(w.conn, w.keys)
	err := apply(c, batch)
	if err == nil {
		err = c.flush()
	}
	if err == nil {
		_, err = w.conn.exec(commit)
	}
	if err != nil {
		return w.failed("writing", errors.Join(err, w.rollback()))
	}
	maps.Copy(w.keys, c.found)
	return nil
}

// changeError says that a change failed, and not the transaction around it.
type changeError struct{ error }

func (e *changeError) Unwrap() error { return e.error }

// attempt runs a change. A panic is an error of that change: the writer serves others
// too.
func (c *change) attempt(in *changes) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return c.run(in)
}

func (c *changes) make(batch []*change) error {
	for _, change := range batch {
		if err := change.attempt(c); err != nil {
			return &changeError{err}
		}
	}
	return nil
}

// eachAlone makes changes of which one has failed, so that the others are made
// all the same.
func (w *writer) eachAlone(batch []*change) error {
	err := w.begin(func() bool { return w.isAwaited(batch) })
	if err != nil {
		return err
	}
	return w.transact(batch, func(c *changes, batch []*change) error {
		for _, change := range batch {
			var fatal error
			change.err, fatal = c.makeAlone(change)
			if fatal != nil {
				return fatal
			}
			if change.err != nil {
				change.err = w.failed("writing", change.err)
			}
		}
		return nil
	})
}

// isAwaited is true while one of the callers waits.
func (w *writer) isAwaited(batch []*change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(batch, func(c *change) bool { return c.state == underWay })
}

// makeAlone makes a change, or undoes it and returns why it failed. A fatal error
// is one of the whole transaction.
func (c *changes) makeAlone(change *change) (failure, fatal error) {
	if _, fatal = c.exec(savepoint); fatal != nil {
		return nil, fatal
	}
	failure = change.attempt(c)
	if failure == nil {
		failure = c.flush()
	}
	if failure != nil {
		if _, fatal = c.exec(rollbackToSavepoint); fatal != nil {
			return nil, errors.Join(failure, fatal)
		}
		clear(c.counts)
		clear(c.found)
	}
	_, fatal = c.exec(releaseSavepoint)
	return failure, fatal
}

// deliver tells the callers what became of their changes: err, or their own. It
// returns what makes up for the changes of those who left.
func (w *writer) deliver(batch []*change, err error) (undo []*change) {
	var news []driver.Change
	w.mu.Lock()
	w.expected = len(batch) + len(w.pending)
	for _, c := range batch {
		if err != nil {
			c.err = err
		}
		if c.state == abandoned && c.undo != nil && c.err == nil {
			undo = append(undo, &change{run: c.undo})
		}
		c.state = delivered
		if c.news.MayClaim && c.err == nil && !slices.Contains(news, c.news) {
			news = append(news, c.news)
		}
	}
	w.mu.Unlock()
	for _, c := range batch {
		close(c.done)
	}
	for _, change := range news {
		w.notify(change)
	}
	return undo
}

// undo hands back what was claimed for callers that left.
func (w *writer) undo(batch []*change) {
	err := w.begin(func() bool { return true })
	if err == nil {
		err = w.transact(batch, (*changes).make)
	}
	if err != nil {
		logging.Error(w.ctx, message.Fields{
			"message": "could not hand back what was claimed for callers that left; it is recovered when it is stale",
			"path":    w.path,
			"error":   err.Error(),
		})
		return
	}
	w.notify(driver.Anywhere)
}

func (w *writer) readVersion() error {
	err := w.conn.query(dataVersion, func(r *row) error {
		w.version = r.integer()
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the data version: %w", err)
	}
	return nil
}

// lookForOthersNow does so where another writer may have written.
func (w *writer) lookForOthersNow() {
	select {
	case <-w.others:
		w.lookForOthers()
	default:
	}
}

// lookForOthers tells the subscribers where another writer has written.
func (w *writer) lookForOthers() {
	last := w.version
	if err := w.readVersion(); err != nil {
		logging.Warning(w.ctx, message.Fields{
			"message": "could not look whether others have written",
			"path":    w.path,
			"error":   err.Error(),
		})
		return
	}
	if w.version != last {
		w.notify(driver.Anywhere)
	}
}
