package queue

import (
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// leftFor is how long a kind is left in its queues after a job of it was met that outside
// workers can't run. Later there may be others.
const leftFor = time.Minute

// metKinds remembers the kinds of the jobs that claims for outside workers have met, so that
// a claim can leave out all kinds that its worker does not run. Each is met once. The zero
// value is empty. It is safe for concurrent use.
type metKinds struct {
	mu sync.Mutex
	// until is when a kind that outside workers can't run is tried again; zero for a kind
	// that they can run.
	until map[driver.Kind]time.Time
}

func (m *metKinds) add(kind driver.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.until[kind]; !known {
		m.set(kind, time.Time{})
	}
}

func (m *metKinds) leave(kind driver.Kind, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(kind, now.Add(leftFor))
}

func (m *metKinds) set(kind driver.Kind, until time.Time) {
	if m.until == nil {
		m.until = map[driver.Kind]time.Time{}
	}
	m.until[kind] = until
}

// but returns the kinds that a worker for some types does not run.
func (m *metKinds) but(types []string, now time.Time) (others []driver.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, until := range m.until {
		if !slices.Contains(types, kind.Type) || now.Before(until) {
			others = append(others, kind)
		}
	}
	return others
}
