package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// runner is the goroutine of a scheduler.
type runner struct {
	mu      sync.Mutex
	started bool
	stop    context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended
}

// start runs a function until ctx ends or close is called. It returns false if there was
// one already.
func (r *runner) start(ctx context.Context, run func(context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return false
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.started, r.done = true, make(chan struct{})
	go func() {
		defer close(r.done)
		defer r.stop() // it may have ended by itself
		run(ctx)
	}()
	return true
}

// close ends what start began, and waits for it.
func (r *runner) close() {
	r.mu.Lock()
	stop, done := r.stop, r.done
	r.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	<-done
}

// Start puts the jobs of ticks as they come, until ctx ends or Close is called, and
// before that those of ticks that were missed. It returns at once, and returns an
// error that wraps amboy.ErrAlreadyStarted when it is called again. A schedule whose
// job can't be put is tried again, after waits that grow from a second to a minute;
// each failure is logged, and seen in List. A queue, or a group, that was closed ends
// it, which is logged.
func (s *Scheduler) Start(ctx context.Context) error {
	if !s.runner.start(ctx, s.run) {
		return fmt.Errorf("starting the scheduler of queue %q: %w", s.target.name(), amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close ends what Start began, and waits for the job that is just being put. Close it
// before its queue. Closing it again, or one that was not started, does nothing.
func (s *Scheduler) Close() { s.runner.close() }

func (s *Scheduler) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := s.PutDue(ctx) // It logs its errors.
		if s.target.isGone(err) && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{
				"message": "ended a scheduler that was not closed before its queue; a queue of a group that prunes needs one of NewInGroup",
				"queue":   s.target.name(),
			})
			return
		}
		sleep(ctx, next, s.target.now, s.changed)
	}
}

// maxSleep bounds how long a scheduler sleeps. The system may be suspended
// meanwhile, or its clock be set, of which nobody tells.
const maxSleep = time.Minute

// sleep returns at a time or before, when a schedule was added or removed, or when ctx ends.
func sleep(ctx context.Context, until time.Time, now func() time.Time, changed <-chan struct{}) {
	wait := maxSleep
	if !until.IsZero() {
		wait = min(wait, until.Sub(now()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}
