package sqlite

import (
	"context"
	"errors"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// claimQuery queries, concurrently with the writer, whether a claim would find anything. A
// write wakes all processes, but only few of them find a job; the rest do not have to
// acquire the right to write.
type claimQuery struct{ *connections }

// run reports whether a claim would change anything, and if not, when the next one may.
// It reads everything that was written before the call.
func (q *claimQuery) run(ctx context.Context, req claimRequest) (found bool, next later, err error) {
	err = q.use(ctx, func(conn *ownConnection) (err error) {
		found, next, err = q.runOn(ctx, conn, req)
		return err
	})
	return found, next, err
}

// runOn waits until ctx ends for a process that has locked the file exclusively.
func (q *claimQuery) runOn(ctx context.Context, conn *ownConnection, req claimRequest) (found bool, next later, err error) {
	for err == nil {
		found, next, err = newChanges(conn, nil).findWork(req)
		if resultCode(err) != codeBusy {
			return found, next, named(err)
		}
		err = q.ended(ctx)
	}
	return false, next, err
}

// findWork runs in a transaction, so that a record that moves is found once.
func (c *changes) findWork(req claimRequest) (found bool, more later, err error) {
	if _, err = c.exec(beginReading); err != nil {
		return false, more, err
	}
	defer func() {
		_, endErr := c.exec(rollback)
		err = errors.Join(err, endErr)
	}()
	due, expires, left, err := c.nextTimes()
	if errors.Is(err, errDamagedRow) {
		return true, more, nil // a claim parks it
	}
	if err != nil {
		return false, more, err
	}
	if now := req.Now.UnixNano(); left || isDue(due, now) || hasExpired(expires, now) {
		return true, more, nil
	}
	work, err := c.work(req)
	if err != nil {
		return false, more, err
	}
	err = c.setRooms(work)
	if err != nil {
		return false, more, err
	}
	setBacklogs(work)
	err = c.findEligible(work, req.ClaimRequest)
	if err != nil {
		return false, more, err
	}
	for _, w := range work {
		if w.overdue > 0 || w.mustReset() || w.mustSettle() || (req.Limit > 0 && w.claimable() > 0) {
			return true, more, nil
		}
	}
	return false, later{next: table.Earliest(due, expires), waits: waits(work)}, nil
}
