package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// looker sees, beside the writer, whether there is anything for a claim. Others
// that write wake all processes, of which few find something then: the rest need
// not ask for the right to write.
type looker struct {
	// conn holds the connection while nobody looks.
	conn   chan *ownConnection
	closed <-chan struct{}
}

func newLooker(conn *ownConnection, closed <-chan struct{}) *looker {
	l := &looker{conn: make(chan *ownConnection, 1), closed: closed}
	l.conn <- conn
	return l
}

// look tells whether a claim would change anything, and when one may, where it
// would not. It sees all that was written before it was called.
func (l *looker) look(ctx context.Context, req driver.ClaimRequest) (found bool, next time.Time, err error) {
	err = l.ended(ctx)
	if err != nil {
		return false, next, err
	}
	select {
	case conn := <-l.conn:
		defer func() { l.conn <- conn }()
		return l.lookOn(ctx, conn, req)
	case <-ctx.Done():
	case <-l.closed:
	}
	return false, next, l.ended(ctx)
}

// lookOn waits, while ctx lives, for a process that has the file for itself.
func (l *looker) lookOn(ctx context.Context, conn *ownConnection, req driver.ClaimRequest) (found bool, next time.Time, err error) {
	for err == nil {
		found, next, err = newChanges(conn, nil).look(req)
		if resultCode(err) != codeBusy {
			return found, next, err
		}
		err = l.ended(ctx)
	}
	return false, next, err
}

// ended is why a look has to end.
func (l *looker) ended(ctx context.Context) error {
	select {
	case <-l.closed:
		return driver.ErrClosed
	default:
		return ctx.Err()
	}
}

// close waits for the look that is under way. None must begin after it.
func (l *looker) close() error { return (<-l.conn).close() }

// look does so in a transaction, so that a record that moves is seen once.
func (c *changes) look(req driver.ClaimRequest) (found bool, next time.Time, err error) {
	if _, err = c.exec(beginReading); err != nil {
		return false, next, err
	}
	defer func() {
		_, endErr := c.exec(rollback)
		err = errors.Join(err, endErr)
	}()
	due, expires, left, err := c.nextTimes()
	if err != nil {
		return false, next, err
	}
	if now := req.Now.UnixNano(); left || isDue(due, now) || hasExpired(expires, now) {
		return true, next, nil
	}
	work, err := c.work(req)
	if err != nil {
		return false, next, err
	}
	err = c.findEligible(work, req)
	if err != nil {
		return false, next, err
	}
	for _, w := range work {
		if w.overdue > 0 || (req.Limit > 0 && w.most() > 0) {
			return true, next, nil
		}
	}
	return false, earliest(due, expires), nil
}
