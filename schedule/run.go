package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// Start puts the jobs of ticks that were missed, and then the jobs of ticks as they come,
// until ctx ends or Close is called. It returns at once. If it is called again, it returns
// an error that wraps amboy.ErrAlreadyStarted. If the job of a schedule can't be put, it
// tries again, after waits that grow from a second to a minute; it logs each failure, and
// List shows it. If the queue or the group was closed, it logs that and stops.
func (s *Scheduler) Start(ctx context.Context) error {
	if !s.loop.Start(ctx, s.run) {
		return fmt.Errorf("starting the scheduler of queue %q: %w", s.target.name(), amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close stops what Start began, and waits until a job that is being put has been put, or until
// ctx ends. Call it before closing the queue. It does nothing if the scheduler was not started
// or is already closed.
func (s *Scheduler) Close(ctx context.Context) { s.loop.Close(ctx) }

func (s *Scheduler) run(ctx context.Context) {
	defer s.calls.Wait()
	for ctx.Err() == nil {
		next, err := s.putDueAt(ctx, s.target.now(), waitForNone) // It logs its errors.
		if isGone(s.target, err) && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{
				"message": "scheduler stopped because its queue was closed; use NewInGroup for a queue that its group may prune",
				"queue":   s.target.name(),
			})
			return
		}
		sleep(ctx, next, s.target.now, s.changed)
	}
}

// isGone reports whether an error of PutDue says that the queue of a target is closed for good. The error
// of a JobFunc or of a TenantsFunc may be about another queue or group.
func isGone(t target, err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // It is never wrapped here.
		return slices.ContainsFunc(several.Unwrap(), func(one error) bool { return isGone(t, one) })
	}
	var made *jobError
	var named *namesError
	return !errors.As(err, &made) && !errors.As(err, &named) && t.isGone(err)
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
