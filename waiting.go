package amboy

import (
	"context"
	"time"
)

// defaultWaitInterval is the time between two looks at a queue that can't tell
// by itself when jobs end.
const defaultWaitInterval = 100 * time.Millisecond

// CompletionWaiter is implemented by queues that wake those who wait for jobs
// to end. On such a queue Wait, WaitJob and their forms with an interval never
// look at the queue at intervals.
type CompletionWaiter interface {
	// WaitComplete blocks until nothing in the queue is pending, running or
	// retrying, and then returns true. It returns false when ctx ends first, or
	// the queue is closed.
	WaitComplete(ctx context.Context) bool
	// WaitJobComplete blocks until the last attempt of the job with that ID
	// has ended, and then returns true. It returns false when ctx ends first, or
	// the queue is closed, and where the job is not there.
	WaitJobComplete(ctx context.Context, id string) bool
}

// Wait blocks until every job of the queue has ended and none is to be
// retried, and then returns true. It returns false when ctx ends first, and on a
// CompletionWaiter also when the queue is closed. It is safe for concurrent use.
// A queue that is no CompletionWaiter is looked at every 100 milliseconds.
func Wait(ctx context.Context, q Queue) bool {
	return WaitInterval(ctx, q, defaultWaitInterval)
}

// WaitInterval is Wait with the time between two looks at a queue that is no
// CompletionWaiter. An interval of zero or less means the default of Wait.
func WaitInterval(ctx context.Context, q Queue, interval time.Duration) bool {
	if waiter, ok := q.(CompletionWaiter); ok {
		return waiter.WaitComplete(ctx)
	}
	return poll(ctx, interval, func() bool { return q.Stats(ctx).IsIdle() })
}

// WaitIntervalNum blocks until at least num jobs of the queue are completed, as
// its Stats count them, and then returns true. It returns false when ctx ends
// first. It looks at every queue at intervals; an interval of zero or less
// means the default of Wait. It is safe for concurrent use.
func WaitIntervalNum(ctx context.Context, q Queue, interval time.Duration, num int) bool {
	return poll(ctx, interval, func() bool { return q.Stats(ctx).Completed >= num })
}

// WaitJob blocks until the last attempt of a job has ended, and then returns
// true. It returns false when ctx ends first, and where the job is nil or not
// in the queue. It is safe for concurrent use. A queue that is no
// CompletionWaiter is looked at every 100 milliseconds.
func WaitJob(ctx context.Context, j Job, q Queue) bool {
	return WaitJobInterval(ctx, j, q, defaultWaitInterval)
}

// WaitJobInterval is WaitJob with the time between two looks at a queue that is
// no CompletionWaiter. An interval of zero or less means the default of
// WaitJob.
func WaitJobInterval(ctx context.Context, j Job, q Queue, interval time.Duration) bool {
	if IsNilJob(j) {
		return false
	}
	id := j.ID()
	if waiter, ok := q.(CompletionWaiter); ok {
		return waiter.WaitJobComplete(ctx, id)
	}
	found := false
	decided := poll(ctx, interval, func() bool {
		var latest Job
		latest, found = q.Get(ctx, id)
		return !found || hasEnded(latest)
	})
	return decided && found
}

// hasEnded is true when no attempt of a job runs or will follow. A job that
// marked itself as complete is in progress until its queue completes it, and
// may still ask for a retry.
func hasEnded(j Job) bool {
	status := j.Status()
	return status.Completed && !status.InProgress && !j.RetryInfo().ShouldRetry()
}

// poll calls done at intervals until it is true, and then returns true. It
// returns false when ctx ends first.
func poll(ctx context.Context, interval time.Duration, done func() bool) bool {
	if interval <= 0 {
		interval = defaultWaitInterval
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		// A stored queue can't be asked once ctx has ended, so that what done
		// says then counts for nothing.
		if done() && ctx.Err() == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			timer.Reset(interval)
		}
	}
}
