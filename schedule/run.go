package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

// runner is the goroutine of a scheduler.
type runner struct {
	mu      sync.Mutex
	started bool
	stop    context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended
}

// Start puts the jobs of ticks as they come, until ctx ends or Close is called, and
// before that those of ticks that were missed. It returns at once, and returns an
// error that wraps amboy.ErrAlreadyStarted when it is called again. A schedule whose
// job can't be put is tried again, after waits that grow from a second to a minute;
// each failure is logged, and seen in List. A queue that was closed ends it.
func (s *Scheduler) Start(ctx context.Context) error {
	r := &s.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return fmt.Errorf("starting the scheduler of queue %q: %w", s.queue.ID(), amboy.ErrAlreadyStarted)
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.started, r.done = true, make(chan struct{})
	go func() {
		defer close(r.done)
		defer r.stop() // where the queue was closed
		s.run(ctx)
	}()
	return nil
}

// Close ends what Start began, and waits for the job that is just being put. Close it
// before its queue. Closing it again, or one that was not started, does nothing.
func (s *Scheduler) Close() {
	r := &s.runner
	r.mu.Lock()
	stop, done := r.stop, r.done
	r.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	<-done
}

// maxSleep bounds how long the scheduler sleeps. The system may be suspended
// meanwhile, or its clock be set, of which nobody tells.
const maxSleep = time.Minute

func (s *Scheduler) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := s.PutDue(ctx) // It logs its errors.
		if errors.Is(err, amboy.ErrQueueClosed) {
			return
		}
		s.sleep(ctx, next)
	}
}

// sleep returns at a time or before, when a schedule was added or removed, or when ctx ends.
func (s *Scheduler) sleep(ctx context.Context, until time.Time) {
	wait := maxSleep
	if !until.IsZero() {
		wait = min(wait, until.Sub(amboy.Now(s.queue)))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
	case <-ctx.Done():
	}
}
