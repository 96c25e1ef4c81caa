package amboy

import (
	"context"
	"time"
)

// defaultWaitInterval is the polling interval for queues that are not CompletionWaiters.
const defaultWaitInterval = 100 * time.Millisecond

// CompletionWaiter is implemented by queues that wake waiters when jobs end. Wait, WaitJob
// and their variants with an interval do not poll such a queue.
type CompletionWaiter interface {
	// WaitComplete blocks until nothing in the queue is pending, running or retrying, and
	// then returns true. It returns false if ctx ends first or the queue is closed.
	WaitComplete(ctx context.Context) bool
	// WaitJobComplete blocks until the last attempt of the job with that ID has ended, and
	// then returns true. It returns false if ctx ends first, the queue is closed, or the
	// job does not exist. A queue in a file or a database does not keep a running job from
	// waiting while it closes.
	WaitJobComplete(ctx context.Context, id string) bool
}

// Wait blocks until every job of the queue has ended and none awaits a retry, and then
// returns true. It returns false if ctx ends first or the queue is nil, and on a CompletionWaiter
// also if the queue is closed. It polls any other queue every 100 milliseconds. It is safe for
// concurrent use.
func Wait(ctx context.Context, q Queue) bool {
	return WaitInterval(ctx, q, defaultWaitInterval)
}

// WaitInterval is like Wait, with the polling interval for queues that are not
// CompletionWaiters. An interval of zero or less means the default of Wait.
func WaitInterval(ctx context.Context, q Queue, interval time.Duration) bool {
	if q == nil {
		return false
	}
	if waiter, ok := q.(CompletionWaiter); ok {
		return waiter.WaitComplete(ctx)
	}
	return poll(ctx, interval, func() bool { return q.Stats(ctx).IsIdle() })
}

// WaitIntervalNum blocks until at least num jobs of the queue are completed, as counted by
// its Stats, and then returns true. It returns false if ctx ends first or the queue is nil. It
// polls every queue; an interval of zero or less means the default of Wait. It is safe for
// concurrent use.
func WaitIntervalNum(ctx context.Context, q Queue, interval time.Duration, num int) bool {
	return q != nil && poll(ctx, interval, func() bool { return q.Stats(ctx).Completed >= num })
}

// WaitJob blocks until the last attempt of a job has ended, and then returns true. It
// returns false if ctx ends first, if the job or the queue is nil, or if the job is not in the
// queue. It polls a queue that is not a CompletionWaiter every 100 milliseconds. It is safe for
// concurrent use.
func WaitJob(ctx context.Context, j Job, q Queue) bool {
	return WaitJobInterval(ctx, j, q, defaultWaitInterval)
}

// WaitJobInterval is like WaitJob, with the polling interval for queues that are not
// CompletionWaiters. An interval of zero or less means the default of WaitJob.
func WaitJobInterval(ctx context.Context, j Job, q Queue, interval time.Duration) bool {
	if q == nil || IsNilJob(j) {
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

// hasEnded reports whether no attempt of a job runs or will follow. A job that marked
// itself as complete is in progress until its queue completes it, and may still ask for a
// retry.
func hasEnded(j Job) bool {
	status := j.Status()
	return status.Completed && !status.InProgress && !j.RetryInfo().ShouldRetry()
}

// poll calls done at intervals until it returns true, and then returns true. It returns
// false if ctx ends first.
func poll(ctx context.Context, interval time.Duration, done func() bool) bool {
	if interval <= 0 {
		interval = defaultWaitInterval
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		// A stored queue can't be queried after ctx has ended, so the result of done does
		// not count then.
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
