package memory

import (
	"context"
	"time"
)

// markKey identifies a mark of a queue.
type markKey struct{ queue, name string }

// Mark implements driver.Driver.
func (d *Driver) Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error) {
	if at.IsZero() {
		err = d.lockToRead(ctx)
	} else {
		err = d.lock(ctx)
	}
	if err != nil {
		return time.Time{}, err
	}
	defer d.unlock()
	key := markKey{queue, name}
	last = d.marks[key]
	at = at.UTC().Truncate(time.Millisecond)
	if at.After(last) {
		d.marks[key] = at
	}
	return last, nil
}
