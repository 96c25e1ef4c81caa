package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// endWatch wakes the callers that wait for jobs that another process has ended. It reads
// the jobs that callers wait for after the driver's notifications, all of a queue at once.
//
// The reads take turns with pauses that grow with the number of jobs, so that they cost
// about the same however many callers wait and however often the store changes. Nothing is
// read while no caller waits, or the store does not change.
type endWatch struct {
	engine *Engine

	mu sync.Mutex
	// waiting counts the callers that wait for jobs of each queue.
	waiting map[*Queue]int
	// changed is true if the store has changed since the jobs were last read, and running
	// while a goroutine reads them.
	changed, running bool
	// partly is true if the engine is not notified of all changes, and unsubscribe ends the
	// subscription to all while callers wait.
	partly      bool
	unsubscribe func()
}

const (
	// endPause is the shortest pause before a read, and endPausePerJob how much of it there is
	// at least for each job that was read before. A job that ends in this process wakes its
	// waiters itself, after it was counted; the pause leaves it the time for that.
	endPause       = 20 * time.Millisecond
	endPausePerJob = time.Millisecond
	// failedReadPause is the shortest pause after a read that failed.
	failedReadPause = time.Second
)

// add counts n callers that wait for jobs of a queue.
func (w *endWatch) add(q *Queue, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[*Queue]int{}
	}
	w.waiting[q] += n
	if w.waiting[q] == 0 {
		delete(w.waiting, q)
	}
	switch {
	case !w.partly:
	case len(w.waiting) > 0 && w.unsubscribe == nil:
		w.unsubscribe = w.engine.Driver.Subscribe(func(change driver.Change) {
			if !change.MayClaim { // the engine is notified of the others
				w.engine.storeChanged(change)
			}
		})
	case len(w.waiting) == 0 && w.unsubscribe != nil:
		w.unsubscribe()
		w.unsubscribe = nil
	}
}

// storeChanged is called after changes of the store. It does not block.
func (w *endWatch) storeChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 || w.engine.manual {
		return
	}
	w.changed = true
	if !w.running {
		w.running = true
		w.engine.RunInBackground(w.run)
	}
}

// run reads the jobs until the store has not changed during a pause.
func (w *endWatch) run(ctx context.Context) {
	for pause := endPause; ; {
		if sleep.For(ctx, pause) != nil {
			return // the engine has ended
		}
		queues := w.next()
		if len(queues) == 0 {
			return
		}
		pause = endPause
		n := 0
		for _, q := range queues {
			read, err := q.wakeEnded(ctx)
			if err != nil {
				w.engine.Report("could not read the jobs that callers wait for; reading them later", err)
				w.readAgain()
				pause = failedReadPause
			}
			n += read
		}
		pause = max(pause, time.Duration(n)*endPausePerJob)
	}
}

// readAgain makes run read the jobs once more, even if the store does not change.
func (w *endWatch) readAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
}

// next returns the queues whose jobs are to be read; none if that is over.
func (w *endWatch) next() []*Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed || len(w.waiting) == 0 {
		w.running = false // the next change starts another goroutine
		return nil
	}
	w.changed = false
	return slices.Collect(maps.Keys(w.waiting))
}

// wakeEnded wakes the callers that wait for jobs that have ended, and returns how many jobs
// it read.
func (q *Queue) wakeEnded(ctx context.Context) (read int, failure error) {
	q.completeMu.Lock()
	ids := slices.Collect(maps.Keys(q.complete.Jobs))
	q.completeMu.Unlock()
	return len(ids), contain.Panic(func() error {
		for some := range slices.Chunk(ids, MaxFound) {
			bounded, cancel := context.WithTimeout(ctx, DriverTimeout)
			found, err := FindLatest(bounded, q.Driver, q.Name, some)
			cancel()
			if err != nil {
				return err
			}
			lives := make(map[string]bool, len(found))
			for _, r := range found {
				lives[r.JobID()] = !hasEnded(r)
			}
			q.completeMu.Lock()
			for _, id := range some {
				if !lives[id] { // the waiter checks that it has not just been put again
					q.complete.Ended(id, false)
				}
			}
			q.completeMu.Unlock()
		}
		return nil
	})
}

// FindLatest returns the latest attempts of at most MaxFound jobs of a queue, in no
// particular order. Jobs that do not exist are left out.
func FindLatest(ctx context.Context, d driver.Driver, queue string, ids []string) (found []*driver.Record, err error) {
	query := driver.Query{Queues: []string{queue}, JobIDs: ids, Latest: true}
	for r, err := range records.Each(ctx, d, query, driver.PageRequest{Limit: len(ids)}) {
		if err != nil {
			return nil, fmt.Errorf("reading %d jobs of queue %q: %w", len(ids), queue, err)
		}
		found = append(found, r)
	}
	return found, nil
}

// MaxFound is the maximum number of IDs in a query.
const MaxFound = 500
