package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

var _ amboy.QueueMarker = (*driverQueue)(nil)

// Mark implements amboy.QueueMarker.
func (q *driverQueue) Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error) {
	if q.isStopped() {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, q.id, amboy.ErrQueueClosed)
	}
	last, err = q.driver.Mark(ctx, q.name, name, at)
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, q.id, err)
	}
	return last, nil
}
