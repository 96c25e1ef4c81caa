package amboy

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// The bounds of a Rate. The smallest rate above 0 is about one job in twelve days.
const (
	MinRate  = 1e-6
	MaxRate  = 1e6
	MaxBurst = 1_000_000
)

// Rate limits how fast the jobs of a queue start. The limit is a token bucket: each
// start of a job takes a token, and the bucket gets PerSecond tokens a second, up to Burst.
// So at most Burst + PerSecond × t jobs start in any t seconds; a start that comes late by up to
// 20 milliseconds does not delay the next one. The bucket of a queue that had no rate has one
// token. A job starts when a process claims it; a busy machine may begin its run a little later.
//
// A retry is a start too. A job whose run is interrupted, or that is handed back, has
// started, and the token is not given back.
type Rate struct {
	// PerSecond is the number of jobs that start per second. It may be a fraction: 0.1 starts
	// a job every ten seconds. 0 starts none. Otherwise it must be between 0.000001 and
	// 1,000,000.
	PerSecond float64 `json:"per_second"`
	// Burst is the number of jobs that may start at once after fewer have started than the rate
	// allows. It must not be negative or more than 1,000,000. Default: the jobs
	// of a tenth of a second, at least one.
	Burst int `json:"burst,omitempty"`
}

// Validate returns an error if a field is out of range.
func (r Rate) Validate() error {
	var errs []error
	if math.IsNaN(r.PerSecond) || (r.PerSecond != 0 && (r.PerSecond < MinRate || r.PerSecond > MaxRate)) {
		errs = append(errs, fmt.Errorf("rate: PerSecond must be 0, or between 0.000001 and 1000000 (is %v)", r.PerSecond))
	}
	if r.Burst < 0 || r.Burst > MaxBurst {
		errs = append(errs, fmt.Errorf("rate: Burst must be between 0 and %d (is %d)", MaxBurst, r.Burst))
	}
	return errors.Join(errs...)
}

// BurstOrDefault returns Burst, or its default.
func (r Rate) BurstOrDefault() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, int(r.PerSecond/10))
}

// String describes the rate, as in "10/s, bursts of 1".
func (r Rate) String() string {
	if r.PerSecond == 0 {
		return "0/s"
	}
	return fmt.Sprintf("%v/s, bursts of %d", r.PerSecond, r.BurstOrDefault())
}

// RateController is implemented by queues whose rate an operator can set. If the queue has a
// store, the rate is kept there, and all processes that share the store share one bucket.
type RateController interface {
	// SetRate limits how fast jobs start, over all processes; nil removes the limit. A
	// change of the rate lets at most the new burst start at once. Control returns the rate.
	// SetRate returns an error for an invalid rate, blocks for the call to the store, returns its
	// errors, and is safe for concurrent use.
	SetRate(ctx context.Context, rate *Rate) error
}

// SetRate limits how fast the jobs of a queue start, as RateController.SetRate does; nil
// removes the limit. The error wraps errors.ErrUnsupported if the queue is no RateController.
func SetRate(ctx context.Context, q Queue, rate *Rate) error {
	c, err := as[RateController](q, "setting the rate of")
	if err != nil {
		return err
	}
	return c.SetRate(ctx, rate)
}
