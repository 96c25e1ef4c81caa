package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

var _ amboy.QueueMarker = (*Queue)(nil)

// Mark implements amboy.QueueMarker.
func (q *Queue) Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error) {
	err = ctx.Err()
	if q.IsStopped() {
		err = amboy.ErrQueueClosed
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, q.ID(), err)
	}
	return q.marks.raise(name, at.UTC().Truncate(time.Millisecond)), nil
}

// marks holds the marks of a queue without a store. The zero value is empty.
type marks struct {
	mu sync.Mutex
	at map[string]time.Time
}

// raise sets a mark unless it is later already, and returns its earlier value.
func (m *marks) raise(name string, at time.Time) (last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last = m.at[name]
	if at.After(last) {
		if m.at == nil {
			m.at = map[string]time.Time{}
		}
		m.at[name] = at
	}
	return last
}
