package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

var _ amboy.QueueMarker = (*Queue)(nil)

// Mark implements amboy.QueueMarker.
func (q *Queue) Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error) {
	if q.IsStopped() {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, q.ID(), amboy.ErrQueueClosed)
	}
	last, err = q.Driver.Mark(ctx, q.Name, name, at)
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, q.ID(), err)
	}
	return last, nil
}
