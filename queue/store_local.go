package queue

import (
	"time"

	"github.com/mongodb/amboy"
)

func storeOfLocal(q *local) *Store {
	return &Store{
		admin:      q.admin(),
		queues:     []string{q.id},
		now:        time.Now,
		complete:   q.markAllComplete,
		open:       func(string) (amboy.Queue, bool) { return q, true },
		refresh:    q.refresh,
		measure:    func() ProcessMeasures { return measureLocal(q) },
		setWorkers: func(_ string, n int) error { return q.setWorkers(n) },
	}
}
