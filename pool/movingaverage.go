package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// averageWeight is the weight of the latest interval in the moving average. For
// N intervals it is 2/(N+1), which makes their mean age that of a simple moving
// average of N; see "Exponential moving average" in
// https://en.wikipedia.org/wiki/Moving_average. Here N is 10.
const averageWeight = 2.0 / (10 + 1)

// NewMovingAverageRateLimitedWorkers returns an abortable pool of size workers
// that aim at targetNum starts of jobs per period, over all of them. A worker
// waits for as long as keeps the exponentially weighted moving average of the
// intervals between starts, about the last ten, from falling below
// period/targetNum.
//
// Over its life the pool never starts jobs faster than that. Unlike a token
// bucket it has no burst to choose: an idle time, of which at most one period
// counts, allows up to about 5·ln(targetNum) jobs to start at once, which is 11
// for a target of 10, and 34 for one of 1000.
//
// It returns an error that names each value that is out of range: size and
// targetNum must be at least 1, and period at least a millisecond. The queue
// may be nil, and is then set with SetQueue. The pool is an
// amboy.ResizableRunner and safe for concurrent use.
func NewMovingAverageRateLimitedWorkers(size, targetNum int, period time.Duration, q amboy.Queue) (amboy.AbortableRunner, error) {
	err := errors.Join(validateSize(size), validateRate("targetNum", targetNum, period))
	if err != nil {
		return nil, fmt.Errorf("making rate limited pool: %w", err)
	}
	target := float64(period) / float64(targetNum)
	average := &movingAverage{target: target, longest: float64(period), average: target}
	return newAbortablePool(size, q, oneAtATime(average.next)), nil
}

// movingAverage steers the intervals between the starts of jobs, which are in
// nanoseconds. It is not safe for concurrent use.
type movingAverage struct {
	target  float64 // the interval to aim at
	longest float64 // what an interval counts as at most

	last    time.Time // of the latest start, zero before the first
	average float64
}

// next waits until a job may start, and takes one.
func (m *movingAverage) next(ctx context.Context, q amboy.Queue) amboy.Job {
	if wait := time.Until(m.earliest()); wait > 0 {
		sleep(ctx, wait)
	}
	if ctx.Err() != nil {
		return nil
	}
	job := q.Next(ctx)
	if job != nil {
		m.started(time.Now())
	}
	return job
}

// earliest is when a job may start: after the interval x for which the new
// average, weight·x + (1-weight)·average, is no less than the target.
func (m *movingAverage) earliest() time.Time {
	interval := (m.target - (1-averageWeight)*m.average) / averageWeight
	return m.last.Add(time.Duration(max(0, interval)))
}

// started adds the interval up to a start to the average.
func (m *movingAverage) started(at time.Time) {
	if !m.last.IsZero() {
		interval := min(float64(at.Sub(m.last)), m.longest)
		m.average = averageWeight*interval + (1-averageWeight)*m.average
	}
	m.last = at
}
