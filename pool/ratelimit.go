package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/mongodb/amboy"
)

// minPeriod is the shortest period of a rate. Timers are too coarse for shorter ones.
const minPeriod = time.Millisecond

// NewRateLimitedWorkers returns an abortable pool of size workers that together start at
// most jobs jobs per period on average. The limit is a token bucket: it fills evenly and
// holds burst tokens, each for the start of one job. After idle time burst+1 jobs may
// start at once, because a worker that waits for a job has already taken a token.
//
// It returns an error that names each value out of range: size, jobs and burst must be at
// least 1, and period at least a millisecond. The queue may be nil, and is then set with
// SetQueue. The pool is an amboy.ResizableRunner and safe for concurrent use.
func NewRateLimitedWorkers(size, jobs int, period time.Duration, burst int, q amboy.Queue) (amboy.AbortableRunner, error) {
	err := errors.Join(
		validateSize(size),
		validateRate("jobs", jobs, period),
		validateMinimum("burst", burst),
	)
	if err != nil {
		return nil, fmt.Errorf("making rate limited pool: %w", err)
	}
	bucket := rate.NewLimiter(rate.Limit(float64(jobs)/period.Seconds()), burst)
	return newAbortablePool(size, q, oneAtATime(func(ctx context.Context, q amboy.Queue) amboy.Job {
		if bucket.Wait(ctx) != nil {
			return nil // ctx has ended, or will end before a token is available
		}
		return q.Next(ctx)
	})), nil
}

// oneAtATime lets only one worker at a time wait for its turn and then for a job.
// Otherwise each idle worker would hold a token, and all of them would start a job at once
// when jobs arrive.
func oneAtATime(next nextFunc) nextFunc {
	gate := make(chan struct{}, 1)
	return func(ctx context.Context, q amboy.Queue) amboy.Job {
		select {
		case gate <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		defer func() { <-gate }()
		return next(ctx, q)
	}
}

func validateRate(field string, n int, period time.Duration) error {
	err := validateMinimum(field, n)
	if period < minPeriod {
		err = errors.Join(err, fmt.Errorf("period must be at least %s (is %s)", minPeriod, period))
	}
	return err
}

func validateMinimum(field string, n int) error {
	if n < 1 {
		return fmt.Errorf("%s must be at least 1 (is %d)", field, n)
	}
	return nil
}
