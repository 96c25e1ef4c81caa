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

// start runs a function on a goroutine until ctx ends or close is called. It returns false
// if it was called before.
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
		defer r.stop() // run may have returned by itself
		run(ctx)
	}()
	return true
}

// close stops the goroutine that start began, and waits for it until ctx ends.
func (r *runner) close(ctx context.Context) {
	r.mu.Lock()
	stop, done := r.stop, r.done
	r.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Start puts the jobs of ticks that were missed, and then the jobs of ticks as they come,
// until ctx ends or Close is called. It returns at once. If it is called again, it returns
// an error that wraps amboy.ErrAlreadyStarted. If the job of a schedule can't be put, it
// tries again, after waits that grow from a second to a minute; it logs each failure, and
// List shows it. If the queue or the group was closed, it logs that and stops.
func (s *Scheduler) Start(ctx context.Context) error {
	if !s.runner.start(ctx, s.run) {
		return fmt.Errorf("starting the scheduler of queue %q: %w", s.target.name(), amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close stops what Start began, and waits until a job that is being put has been put, or until
// ctx ends. Call it before closing the queue. It does nothing if the scheduler was not started
// or is already closed.
func (s *Scheduler) Close(ctx context.Context) { s.runner.close(ctx) }

func (s *Scheduler) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := s.PutDue(ctx) // It logs its errors.
		if s.target.isGone(err) && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{
				"message": "scheduler stopped because its queue was closed; use NewInGroup for a queue that its group may prune",
				"queue":   s.target.name(),
			})
			return
		}
		sleep(ctx, next, s.target.now, s.changed)
	}
}

// maxSleep bounds how long a scheduler sleeps, because a suspension of the system or a
// change of its clock does not wake it.
const maxSleep = time.Minute

// sleep blocks until a time, until a schedule is added or removed, or until ctx ends.
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
