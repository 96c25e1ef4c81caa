package queue

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

var _ amboy.QueueMarker = (*local)(nil)

// marks are those of a queue that has no store. The zero value has none.
type marks struct {
	mu sync.Mutex
	at map[string]time.Time
}

// Mark implements amboy.QueueMarker.
func (m *marks) Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error) {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return time.Time{}, ctxErr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last = m.at[name]
	at = at.UTC().Truncate(time.Millisecond)
	if at.After(last) {
		if m.at == nil {
			m.at = map[string]time.Time{}
		}
		m.at[name] = at
	}
	return last, nil
}
