// Package rate measures the rate at which the jobs of a queue start.
package rate

import (
	"math"
	"time"

	"github.com/mongodb/amboy"
)

const (
	// MaxAhead is how far the bucket may lie in the future before the clock counts as set
	// back. Clocks that are read one after the other may differ a little.
	MaxAhead = time.Second
	// Tolerance is the maximum time by which a claim may come too late without slowing down
	// the rate. It is at most half of what a token takes, so that it does not add a token.
	Tolerance = 20 * time.Millisecond
	// MinWait is the shortest wait for tokens, unless the bucket would be half full before: if
	// tokens come faster, one claim waits for several of them. All processes with free workers
	// wait for the same token, so that they would otherwise keep a server busy with claims
	// that get nothing.
	MinWait = 40 * time.Millisecond
	// maxSpan limits all times, so that they can be added.
	maxSpan = float64(100 * 365 * 24 * time.Hour / 2)
	// Epsilon is the part of a token that may be missing, because times are rounded.
	Epsilon = 1e-6
)

// Interval returns the time that a token takes. The rate must not be 0.
func Interval(r amboy.Rate) time.Duration { return span(1 / r.PerSecond) }

// Capacity returns the time in which a bucket becomes full. The rate must not be 0.
func Capacity(r amboy.Rate) time.Duration {
	return span(float64(r.BurstOrDefault())/r.PerSecond) + min(Interval(r)/2, Tolerance)
}

func span(seconds float64) time.Duration {
	return time.Duration(math.Min(maxSpan, math.Ceil(seconds*float64(time.Second))))
}

// Bucket contains the tokens of a rate. It is the time since when it collects them, by a clock
// that the caller chooses, in nanoseconds; so it is empty at that time. 0 is a new bucket, which
// has one token.
type Bucket int64

// After returns the time of a bucket's clock that started some time ago. It is never 0, which
// would be a new bucket.
func After(elapsed time.Duration) int64 { return int64(epoch + elapsed) }

const epoch = 100 * 365 * 24 * time.Hour

// at returns the bucket as it is at a time: no fuller than it may be, and not emptied in the
// future.
func (b Bucket) at(r amboy.Rate, now int64) Bucket {
	switch {
	case b == 0:
		return Bucket(now - int64(Interval(r)))
	case b.IsAhead(now):
		return Bucket(now)
	default:
		return max(b, Bucket(now-int64(Capacity(r))))
	}
}

// IsAhead reports whether the clock was set back. Then the bucket must be replaced by Bucket(now),
// or it would get no tokens until the clock has caught up.
func (b Bucket) IsAhead(now int64) bool { return int64(b) > now+int64(MaxAhead) }

// Tokens returns the number of jobs that may start.
func (b Bucket) Tokens(r amboy.Rate, now int64) int {
	if r.PerSecond == 0 {
		return 0
	}
	return max(0, min(r.BurstOrDefault(), int(float64(now-int64(b.at(r, now)))/float64(time.Second)*r.PerSecond+Epsilon)))
}

// Take takes the tokens of n jobs that start. There must be as many.
func (b Bucket) Take(r amboy.Rate, now int64, n int) Bucket {
	if n <= 0 {
		return b
	}
	return b.at(r, now) + Bucket(span(float64(n)/r.PerSecond))
}

// Wait returns how long to wait for more tokens than there are; 0 if the rate is 0, so that
// there will never be any.
func (b Bucket) Wait(r amboy.Rate, now int64) time.Duration {
	if r.PerSecond == 0 {
		return 0
	}
	return Wait(r, time.Duration(now-int64(b.at(r, now))))
}

// Wait returns how long to wait for more tokens than a bucket has that collects them for some
// time. The rate must not be 0.
func Wait(r amboy.Rate, collected time.Duration) time.Duration {
	tokens := math.Floor(max(0, collected.Seconds())*r.PerSecond + Epsilon)
	next := span((tokens+1)/r.PerSecond) - collected
	return max(1, next, min(MinWait, Capacity(r)/2-collected))
}
