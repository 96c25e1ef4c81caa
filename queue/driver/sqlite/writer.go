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
	// gatherYields is how often the writer yields to other goroutines before it begins. A
	// timer would take longer than what it saves.
	gatherYields = 10
	// transactionSize is the approximate maximum number of records that a transaction
	// changes, unless a single change is larger. It bounds how long later callers wait.
	transactionSize = 2000
	// recordBytes is how many bytes of a record or a note count as much as another record.
	recordBytes = 1 << 12
)

// settleTime is how long a call whose context has ended waits for a change that is being
// written.
var settleTime = time.Second

// jobPatience is how long a call of a running job waits for the right to write. The job may have a
// transaction of its own, for which the call would wait until the job's lease is lost, in each attempt.
var jobPatience = 10 * time.Second

// writer writes all changes of a driver, in one goroutine on one connection. It waits for
// the right to write, and writes all changes that are pending by then in one transaction.
type writer struct {
	ctx    context.Context // never ends
	path   string
	conn   *ownConnection
	notify func(driver.Change)
	keys   map[string]int64 // the IDs of the queues in the file, by name

	mu      sync.Mutex
	closed  bool
	pending []*change
	// expected is the number of callers when the last transaction ended.
	expected int

	wake   chan struct{} // pending is not empty, or the writer was closed
	others chan struct{} // another writer may have written
	done   chan struct{} // closed when run has ended

	// identity recognizes the files, and lost is why the last check failed; nil if it did not.
	identity *identity
	lost     error

	// logSize is the size of the log after the last transaction, trimAt the size from which on the
	// log is truncated, and trimPause the number of transactions after which that is tried in any
	// case if the log is large.
	logSize   int64
	trimAt    int64
	trimPause int

	version int64 // the data version that was last read
	// schema is the schema version that the file has, and known describes the file as it was
	// at the beginning of the last transaction.
	schema int
	known  known

	closeErr error // set before done is closed
}

// change is a change that a caller requests.
type change struct {
	// run makes the change. It may be run again if the transaction was rolled back. If it
	// returns an error, the change is undone.
	run func(*changes) error
	// undo compensates the change if the caller left before it got the result; nil if
	// that is not needed.
	undo func(*changes) error
	// news is sent to subscribers after the change. It is empty if the change makes
	// nothing claimable.
	news driver.Change
	// size is the approximate number of records that the change writes.
	size int

	state progress // guarded by writer.mu
	done  chan struct{}
	err   error // set before done is closed
}

// unknownVersion is no data version of a file.
const unknownVersion = -1

// known is what a transaction has to check, because other connections may have changed it.
type known struct {
	version  int64 // the data version of the file, which changes with each change of another connection
	prunings int64 // how often queues were dropped
}

type progress int

const (
	queued progress = iota
	underWay
	abandoned
	delivered
)

// newWriter starts a writer on a connection. The writer closes the connection when it ends.
func newWriter(ctx context.Context, path string, conn *ownConnection, notify func(driver.Change)) (*writer, error) {
	w := &writer{
		ctx:    context.WithoutCancel(ctx),
		path:   path,
		conn:   conn,
		notify: notify,
		keys:   map[string]int64{},
		schema: currentVersion(),
		known:  known{version: unknownVersion},
		trimAt: largeLog,
		wake:   make(chan struct{}, 1),
		others: make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	err := w.readVersion() //nolint:contextcheck // No statement of the writer is stopped half-way.
	if err == nil {
		w.identity, err = identify(path)
	}
	if err != nil {
		return nil, err
	}
	go w.run() //nolint:contextcheck // It ends with close.
	return w, nil
}

// write makes a change and waits for it. If ctx ends first, either the change is not made,
// or the error is driver.ErrOutcomeUnknown, unless the change has an undo.
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
	if amboy.QueueFromContext(ctx) == nil {
		return w.await(ctx, c)
	}
	timer := time.NewTimer(jobPatience)
	defer timer.Stop()
	select {
	case <-timer.C:
		if w.withdraw(c) {
			return fmt.Errorf("waiting for %s for the right to write to %q: a job must not write while it has a transaction of its own, except in that (see WithTx)", jobPatience, w.path)
		}
	case <-c.done:
	case <-ctx.Done():
	}
	return w.await(ctx, c)
}

// await waits for a change.
func (w *writer) await(ctx context.Context, c *change) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return w.abandon(ctx, c)
	}
}

// withdraw withdraws a change, and reports whether it was still queued.
func (w *writer) withdraw(c *change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.state != queued {
		return false
	}
	w.pending = slices.DeleteFunc(w.pending, func(p *change) bool { return p == c })
	return true
}

// abandon withdraws a change if it is still queued. If the change is being made, abandon
// waits for it, because that takes milliseconds, but only for settleTime: the disk may not
// answer.
func (w *writer) abandon(ctx context.Context, c *change) error {
	if w.withdraw(c) {
		return ctx.Err()
	}
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

// checkOthers makes the writer check whether other writers have written.
func (w *writer) checkOthers() { signal(w.others) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close stops the writer after the pending changes, and waits for it.
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
				w.notifyOfOthersNow() // changes may be pending without a pause
			}
			if w.isOver() {
				w.closeErr = w.conn.close()
				return
			}
		case <-w.others:
			w.notifyOfOthers()
		}
	}
}

// gather lets callers add changes, so that one transaction serves several: callers that
// just got their results send the next change about now, and a caller that ends a job also
// claims another. A lone caller is not delayed.
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

// isWanted reports whether changes are pending.
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

// isOver reports whether the writer was closed and has written all changes. None is added once it
// was closed.
func (w *writer) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed && len(w.pending) == 0
}

// serve writes pending changes as soon as it has the right to write, and delivers the
// results to the callers.
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
	err = w.transact(batch)
	var failure *changeError
	if errors.As(err, &failure) && len(batch) > 1 {
		w.eachAlone(batch)
		err = nil
	}
	if undo := w.deliver(batch, err); len(undo) > 0 {
		w.undo(undo)
	}
	w.trimLog()
}

// errNotWanted is returned if no caller waits for the change any more.
var errNotWanted = errors.New("no caller waits for the change any more")

// begin begins a write transaction. While another process has the right to write, it waits
// as long as wanted returns true.
func (w *writer) begin(wanted func() bool) error {
	err := w.rollback() // the last transaction, if its rollback failed
	if err == nil && w.lost != nil {
		err = w.checkFiles()
	}
	for err == nil {
		_, err = w.conn.exec(begin)
		if resultCode(err) != codeBusy {
			break
		}
		w.notifyOfOthersNow()
		switch {
		case w.isClosed():
			return driver.ErrClosed
		case !wanted():
			return errNotWanted
		}
		err = nil
	}
	if err == nil {
		err = w.identity.checkIndex(w.path)
		if err == nil {
			err = w.check()
		}
		if err != nil {
			err = errors.Join(err, w.rollback())
		}
	}
	if err != nil {
		return w.failed("beginning to write", err)
	}
	return nil
}

// check returns an error if the transaction that was begun must not write, because a newer
// version of this library has changed the schema of the file. It drops the keys of queues if
// others may have them now.
func (w *writer) check() error {
	version, err := w.number(dataVersion)
	if err != nil || version == w.known.version {
		return err
	}
	schema, err := w.number(userVersion)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	err = checkSchema(int(schema), w.schema)
	if err != nil {
		return err
	}
	prunings, err := w.number(prunings)
	if err != nil {
		return fmt.Errorf("reading how often queues were dropped: %w", err)
	}
	if prunings != w.known.prunings {
		w.keys = map[string]int64{}
	}
	w.known = known{version, prunings}
	return nil
}

// number runs a statement that returns one number.
func (w *writer) number(s statement) (n int64, err error) {
	err = w.conn.query(s, func(r *row) error {
		n = r.integer()
		return nil
	})
	return n, err
}

func (w *writer) failed(doing string, err error) error {
	return fmt.Errorf("%s to %q: %w", doing, w.path, named(err))
}

// rollback rolls back a transaction, unless SQLite has done so already.
func (w *writer) rollback() error {
	if !w.conn.inTransaction() {
		return nil
	}
	_, err := w.conn.exec(rollback)
	return err
}

// take removes and returns the pending changes for one transaction.
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

// transact makes changes in the open transaction: all of them, or none if it returns an
// error.
func (w *writer) transact(batch []*change) error {
	c := newChanges(w.conn, w.keys)
	err := c.make(batch)
	if err == nil {
		err = c.flush()
	}
	if err == nil {
		_, err = w.conn.exec(commit)
	}
	if err != nil {
		return w.failed("writing", errors.Join(err, w.rollback()))
	}
	w.reportDamage(c)
	if c.keysEnded {
		w.keys = map[string]int64{}
	}
	maps.Copy(w.keys, c.found)
	if err = w.checkFiles(); err != nil {
		// The transaction counts once the files are back.
		return w.failed("writing", fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err))
	}
	return nil
}

// checkFiles returns an error if what the connection writes is not in the files at the path.
func (w *writer) checkFiles() error {
	w.logSize, w.lost = w.identity.check(w.path)
	return w.lost
}

// changeError is the error of a change, as opposed to one of the transaction.
type changeError struct{ error }

func (e *changeError) Unwrap() error { return e.error }

// attempt runs a change. A panic becomes the error of that change, because the writer also
// serves other callers.
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

// eachAlone makes each change in a transaction of its own after one of them has failed, so
// that the others succeed. Savepoints would not do: some errors, such as that of a full disk,
// end the whole transaction.
func (w *writer) eachAlone(batch []*change) {
	for _, c := range batch {
		alone := []*change{c}
		c.err = w.begin(func() bool { return w.isAwaited(alone) })
		if c.err == nil {
			c.err = w.transact(alone)
		}
	}
}

// isAwaited reports whether a caller still waits for a change of the batch.
func (w *writer) isAwaited(batch []*change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(batch, func(c *change) bool { return c.state == underWay })
}

// deliver sends each caller its result: err, or the change's own error. It returns the
// changes that compensate for callers that left.
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

// undo hands back the claims of callers that left.
func (w *writer) undo(batch []*change) {
	err := w.begin(func() bool { return true })
	if err == nil {
		err = w.transact(batch)
	}
	if err != nil {
		logging.Error(w.ctx, message.Fields{
			"message": "could not hand back claims of callers that left; the jobs are recovered when their leases end",
			"path":    w.path,
			"error":   err.Error(),
		})
		return
	}
	w.notify(driver.Anywhere)
}

func (w *writer) readVersion() (err error) {
	w.version, err = w.number(dataVersion)
	if err != nil {
		return fmt.Errorf("reading the data version: %w", err)
	}
	return nil
}

// notifyOfOthersNow checks for other writers if checkOthers was called.
func (w *writer) notifyOfOthersNow() {
	select {
	case <-w.others:
		w.notifyOfOthers()
	default:
	}
}

// notifyOfOthers notifies the subscribers if another writer has written.
func (w *writer) notifyOfOthers() {
	last := w.version
	if err := w.readVersion(); err != nil {
		logging.Warning(w.ctx, message.Fields{
			"message": "could not check for changes of other writers",
			"path":    w.path,
			"error":   err.Error(),
		})
		return
	}
	if w.version != last {
		w.notify(driver.Anywhere)
	}
}
