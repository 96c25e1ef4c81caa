package queue

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/local"
)

func storeOfLocal(q *local.Queue) *Store {
	return &Store{
		admin:      q.Admin(),
		queues:     []string{q.ID()},
		now:        time.Now,
		complete:   q.MarkAllComplete,
		open:       func(string) (amboy.Queue, bool) { return q, true },
		refresh:    q.Refresh,
		measure:    func() ProcessMeasures { return measureLocal(q) },
		setWorkers: func(_ string, n int) error { return q.ApplyWorkers(n) },
	}
}
