package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// gatherTime is the longest that changes wait for others to be written with them.
const gatherTime = 100 * time.Microsecond

// writer makes all changes of a driver, in one goroutine on one connection. It
// takes all those that are asked for at a time into one transaction.
type writer struct {
	ctx          context.Context // never ends
	file         *file
	keepFinished int
	notify       func()
	prepared     [statements]*sql.Stmt

	mu      sync.Mutex
	closed  bool
	pending []*change
	// expected is how many callers were there when the last transaction ended.
	expected int

	wake   chan struct{} // there is something in pending, or closed
	others chan struct{} // another writer may have written
	done   chan struct{} // closed when run has ended

	version  int64 // the data version that was seen last
	closeErr error // set before done is closed
}

// change is what a caller asks for.
type change struct {
	ctx context.Context
	// run makes the change. It may be run again, where the transaction was
	// undone. An error undoes the change.
	run func(*changes) error
	// undo makes up for the change, where the caller left before he was told;
	// nil where there is no need to.
	undo func(*changes) error
	// notifies is true where the change may let others claim, or ended a job.
	notifies bool

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

// newWriter prepares the statements and starts the writer.
func newWriter(ctx context.Context, f *file, keepFinished int, notify func()) (*writer, error) {
	w := &writer{
		ctx:          context.WithoutCancel(ctx),
		file:         f,
		keepFinished: keepFinished,
		notify:       notify,
		wake:         make(chan struct{}, 1),
		others:       make(chan struct{}, 1),
		done:         make(chan struct{}),
	}
	for s := range statements {
		var err error
		w.prepared[s], err = f.conn.PrepareContext(ctx, statementTexts[s])
		if err != nil {
			return nil, fmt.Errorf("preparing %q: %w", statementTexts[s], err)
		}
	}
	if err := w.prepared[dataVersion].QueryRowContext(ctx).Scan(&w.version); err != nil {
		return nil, fmt.Errorf("reading the data version: %w", err)
	}
	go w.run()
	return w, nil
}

// write makes a change and waits for it. Where ctx ends first the change is not
// made, or else the error says that it is unknown whether it is.
func (w *writer) write(ctx context.Context, c *change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.ctx = ctx
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

// abandon withdraws a change, where that is still possible.
func (w *writer) abandon(ctx context.Context, c *change) error {
	w.mu.Lock()
	state := c.state
	switch state {
	case queued:
		w.pending = slices.DeleteFunc(w.pending, func(p *change) bool { return p == c })
	case underWay:
		c.state = abandoned
	case abandoned, delivered:
	}
	w.mu.Unlock()
	switch {
	case state == delivered:
		<-c.done
		return c.err
	case state == underWay && c.undo == nil:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
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
			w.gather()
			batch, closed := w.take()
			w.commit(batch)
			if closed {
				w.closeErr = w.free()
				return
			}
		case <-w.others:
			w.lookForOthers()
		}
	}
}

// gather waits for as many changes as there were callers when the last
// transaction ended: those that were told of theirs ask for the next about now. A
// lone caller never waits.
func (w *writer) gather() {
	w.mu.Lock()
	wait := !w.closed && len(w.pending) < w.expected
	w.mu.Unlock()
	if !wait {
		return
	}
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-w.wake:
	case <-timer.C:
	}
}

// take returns the changes that are asked for. Where it tells that the writer is
// closed there will be no more.
func (w *writer) take() (batch []*change, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, w.pending = w.pending, nil
	for _, c := range batch {
		c.state = underWay
	}
	return batch, w.closed
}

// commit makes several changes and tells their callers. Where one of them fails,
// each is made alone.
func (w *writer) commit(batch []*change) {
	if len(batch) == 0 {
		return
	}
	err := w.transact(batch)
	for _, c := range batch {
		c.err = err
	}
	var failure *changeError
	if len(batch) > 1 && errors.As(err, &failure) {
		for i, c := range batch {
			c.err = w.transact(batch[i : i+1])
		}
	}
	if undo := w.deliver(batch); len(undo) > 0 {
		err = w.transact(undo)
		if err != nil {
			logging.Error(w.ctx, message.Fields{
				"message": "could not hand back what was claimed for callers that left; it is recovered when it is stale",
				"path":    w.file.path,
				"error":   err.Error(),
			})
		}
	}
}

// deliver tells the callers what became of their changes. It returns what makes
// up for the changes of those who left.
func (w *writer) deliver(batch []*change) (undo []*change) {
	notifies := false
	w.mu.Lock()
	w.expected = len(batch) + len(w.pending)
	for _, c := range batch {
		if c.state == abandoned && c.undo != nil && c.err == nil {
			undo = append(undo, &change{run: c.undo})
		}
		c.state = delivered
		notifies = notifies || c.notifies && c.err == nil
	}
	w.mu.Unlock()
	for _, c := range batch {
		close(c.done)
	}
	if notifies || len(undo) > 0 {
		w.notify()
	}
	return undo
}

// changeError says that a change failed, and not the transaction around it.
type changeError struct{ error }

func (e *changeError) Unwrap() error { return e.error }

// transact makes changes in a transaction: all of them, or none where it returns
// an error.
func (w *writer) transact(batch []*change) error {
	c := &changes{writer: w, queue: w.file.queue}
	if _, err := c.exec(begin); err != nil {
		return fmt.Errorf("beginning to write: %w", err)
	}
	err := c.make(batch)
	if err == nil {
		_, err = c.exec(commit)
	}
	if err != nil {
		_, undoErr := c.exec(rollback)
		return errors.Join(err, undoErr)
	}
	return nil
}

func (c *changes) make(batch []*change) error {
	for _, change := range batch {
		if err := change.run(c); err != nil {
			return &changeError{err}
		}
	}
	return c.count()
}

// lookForOthers tells the subscribers where another writer has written.
func (w *writer) lookForOthers() {
	last := w.version
	if err := w.prepared[dataVersion].QueryRowContext(w.ctx).Scan(&w.version); err != nil {
		logging.Warning(w.ctx, message.Fields{
			"message": "could not look whether others have written",
			"path":    w.file.path,
			"error":   err.Error(),
		})
		return
	}
	if w.version != last {
		w.notify()
	}
}

// free closes the connection, with what belongs to it.
func (w *writer) free() error {
	var errs []error
	for _, s := range w.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.file.conn.Close(), w.file.db.Close())...)
}
