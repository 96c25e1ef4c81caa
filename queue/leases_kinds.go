package queue

import (
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	// leftFor is how long a kind is left in its queues after a job of it was met that outside
	// workers can't run. Later there may be others.
	leftFor = time.Minute
	// rememberedFor is how long a kind is remembered. If there still are jobs of it, they are met
	// again.
	rememberedFor = time.Hour
)

// metKinds remembers the kinds of the jobs that claims for outside workers have met, so that
// a claim can leave out all kinds that its worker does not run. Each is met once in
// rememberedFor. The zero value is empty. It is safe for concurrent use.
type metKinds struct {
	mu    sync.Mutex
	kinds map[driver.Kind]metKind
}

// metKind is when a kind was met, and whether outside workers can't run it.
type metKind struct {
	at     time.Time
	isLeft bool
}

func (m *metKinds) add(kind driver.Kind, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.kinds[kind]; !known {
		m.set(kind, metKind{at: now})
	}
}

func (m *metKinds) leave(kind driver.Kind, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(kind, metKind{at: now, isLeft: true})
}

func (m *metKinds) set(kind driver.Kind, met metKind) {
	if m.kinds == nil {
		m.kinds = map[driver.Kind]metKind{}
	}
	m.kinds[kind] = met
}

// but returns the kinds that a worker for some types does not run.
func (m *metKinds) but(types []string, now time.Time) (others []driver.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, met := range m.kinds {
		switch age := now.Sub(met.at); {
		case age > rememberedFor:
			delete(m.kinds, kind)
		case !slices.Contains(types, kind.Type) || met.isLeft && age < leftFor:
			others = append(others, kind)
		}
	}
	return others
}
