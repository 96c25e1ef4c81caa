package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/sleep"
)

// averageWeight is the weight of the latest interval in the moving average. For N
// intervals it is 2/(N+1), which makes their mean age that of a simple moving average of
// N; see "Exponential moving average" in https://en.wikipedia.org/wiki/Moving_average.
// Here N is 10.
const averageWeight = 2.0 / (10 + 1)

// NewMovingAverageRateLimitedWorkers returns an abortable pool of size workers that
// together start about targetNum jobs per period. Before each start a worker waits until
// the exponentially weighted moving average of the intervals between starts, over about
// the last ten, is at least period/targetNum.
//
// Over its life the pool never exceeds that rate. Unlike a token bucket it has no
// configurable burst: idle time, of which at most one period counts, allows up to about
// 5·ln(targetNum) jobs to start at once, which is 11 for a target of 10, and 34 for a
// target of 1000.
//
// It returns an error that names each value out of range: size and targetNum must be at
// least 1, and period at least a millisecond. The queue may be nil, and is then set with
// SetQueue. The pool is an amboy.ResizableRunner and safe for concurrent use.
func NewMovingAverageRateLimitedWorkers(size, targetNum int, period time.Duration, q amboy.Queue) (amboy.AbortableRunner, error) {
	err := errors.Join(validateSize(size), validateRate("targetNum", targetNum, period))
	if err != nil {
		return nil, fmt.Errorf("making rate limited pool: %w", err)
	}
	target := float64(period) / float64(targetNum)
	average := &movingAverage{target: target, longest: float64(period), average: target}
	return newAbortablePool(size, q, oneAtATime(average.next)), nil
}

// movingAverage controls the intervals between the starts of jobs. Intervals are in
// nanoseconds. It is not safe for concurrent use.
type movingAverage struct {
	target  float64 // the desired interval
	longest float64 // longer intervals count as this

	last    time.Time // time of the latest start, zero before the first
	average float64
}

// next waits until a job may start, and then takes one.
func (m *movingAverage) next(ctx context.Context, q amboy.Queue) amboy.Job {
	if wait := time.Until(m.earliest()); wait > 0 {
		_ = sleep.For(ctx, wait) // the context is checked below
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

// earliest returns when the next job may start: after the interval x for which the new
// average, weight·x + (1-weight)·average, is at least the target.
func (m *movingAverage) earliest() time.Time {
	interval := (m.target - (1-averageWeight)*m.average) / averageWeight
	return m.last.Add(time.Duration(max(0, interval)))
}

// started adds the interval since the last start to the average.
func (m *movingAverage) started(at time.Time) {
	if !m.last.IsZero() {
		interval := min(float64(at.Sub(m.last)), m.longest)
		m.average = averageWeight*interval + (1-averageWeight)*m.average
	}
	m.last = at
}
