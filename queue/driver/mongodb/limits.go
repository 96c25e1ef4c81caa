package mongodb

import (
	"reflect"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// limitsTime is how long after the last claim from a queue its controls are remembered. A process with idle workers
// claims at least every 30 s from each queue with ready jobs that is not stopped.
const limitsTime = 2 * time.Minute

// limits holds the controls of the queues that the last claim found stopped or limited.
type limits struct {
	mu       sync.Mutex
	controls map[string]driver.Control
	// asked is when the queues with such controls were last claimed from, and pruned is when the ones of which that is
	// long ago were last removed: the process may have closed them.
	asked  map[string]time.Time
	pruned time.Time
	// met holds the queues in which the last claim found ready jobs of types with limits.
	met map[string]bool
}

// hasMet reports whether the last claim from a queue found ready jobs of types with limits.
func (l *limits) hasMet(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.met[queue]
}

// setMet records whether a claim from a queue found ready jobs of types with limits.
func (l *limits) setMet(queue string, met bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !met {
		delete(l.met, queue)
		return
	}
	if l.met == nil {
		l.met = map[string]bool{}
	}
	l.met[queue] = true
}

func (l *limits) isStopped(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.controls[queue].IsStopped()
}

func (l *limits) isLimited(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return limitsRunning(l.controls[queue])
}

// ofTypes returns the limits of a queue's types; nil if there were none.
func (l *limits) ofTypes(queue string) map[string]amboy.TypeLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.controls[queue].Types
}

// any reports whether a queue is stopped or limited.
func (l *limits) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.controls) > 0
}

// anyRuns reports whether a queue is limited and not stopped, so that an end may make room in it.
func (l *limits) anyRuns() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, control := range l.controls {
		if !control.IsStopped() && limitsRunning(control) {
			return true
		}
	}
	return false
}

// observe records the controls of the queues that a claim asked for. It reports whether a queue is
// no longer stopped, or the limits of its types have changed.
func (l *limits) observe(controls map[string]driver.Control, asked []string) (resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range asked {
		now := controls[queue]
		before := l.controls[queue]
		resumed = resumed || (before.IsStopped() && !now.IsStopped()) || !reflect.DeepEqual(before.Types, now.Types)
		if !now.IsStopped() && !limitsRunning(now) {
			l.forget(queue)
			continue
		}
		if l.controls == nil {
			l.controls, l.asked = map[string]driver.Control{}, map[string]time.Time{}
		}
		l.controls[queue], l.asked[queue] = now, time.Now()
	}
	l.prune()
	return resumed
}

func (l *limits) forget(queue string) {
	delete(l.controls, queue)
	delete(l.asked, queue)
	delete(l.met, queue)
}

// prune forgets the queues from which nothing was claimed for long. The caller holds the lock.
func (l *limits) prune() {
	if time.Since(l.pruned) < limitsTime/2 {
		return
	}
	l.pruned = time.Now()
	for queue, at := range l.asked {
		if time.Since(at) > limitsTime {
			l.forget(queue)
		}
	}
}
