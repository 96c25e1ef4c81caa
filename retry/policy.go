// Package retry provides policies that decide how long a failed job waits for its next
// attempt. They are plain values that can be stored as JSON and BSON. A policy can be set
// for a job's definition, for one job, or for a queue; see amboy.RetryDelay.
package retry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mongodb/amboy"
)

var (
	_ amboy.RetryPolicy = Fixed{}
	_ amboy.RetryPolicy = Exponential{}
	_ amboy.RetryPolicy = Polynomial{}
	_ amboy.RetryPolicy = Sidekiq{}
)

// longest is the maximum delay, about 292 years.
const longest time.Duration = math.MaxInt64

// InvalidPolicyError is returned for an invalid policy. Use errors.As to find it.
type InvalidPolicyError struct {
	// Field is the invalid field, including the name of the policy.
	Field string
	// Value is the field's value.
	Value any
	// Rule is what the field must satisfy.
	Rule string
}

// Error names the field, its value and the rule.
func (e *InvalidPolicyError) Error() string {
	return fmt.Sprintf("invalid retry policy: %s %s (is %v)", e.Field, e.Rule, e.Value)
}

// notNegative returns an error for a negative duration.
func notNegative(field string, d time.Duration) error {
	if d < 0 {
		return &InvalidPolicyError{Field: field, Value: d, Rule: "must not be negative"}
	}
	return nil
}

// Fixed waits for the same time after every attempt.
type Fixed struct {
	// Wait is the time to wait. 0 means that the next attempt starts at once.
	Wait time.Duration `bson:"wait" json:"wait" yaml:"wait"`
}

// Validate returns an *InvalidPolicyError for a negative Wait.
func (p Fixed) Validate() error { return notNegative("Fixed.Wait", p.Wait) }

// Delay returns Wait.
func (p Fixed) Delay(int) time.Duration { return max(0, p.Wait) }

// Exponential multiplies the wait by a factor after every attempt: Base·Factor^n, where n
// is the number of the attempt, from 0, but at most Max. The zero value waits for 1, 2, 4,
// … seconds.
type Exponential struct {
	// Base is the wait after the first attempt. Default: one second.
	Base time.Duration `bson:"base" json:"base" yaml:"base"`
	// Factor is at least 1. Default: 2.
	Factor float64 `bson:"factor" json:"factor" yaml:"factor"`
	// Max is the longest wait. Default: 0, which means no limit.
	Max time.Duration `bson:"max" json:"max" yaml:"max"`
	// Jitter, from 0 to 1, is the random part of a wait: a wait of d becomes a random time
	// between (1-Jitter)·d and d. It prevents jobs that failed together from being retried
	// together. 1 is known as full jitter. Default: 0, which means no jitter.
	Jitter float64 `bson:"jitter" json:"jitter" yaml:"jitter"`
}

const (
	defaultBase   = time.Second
	defaultFactor = 2
)

// Validate returns an error that wraps an *InvalidPolicyError for each field out of range.
func (p Exponential) Validate() error {
	errs := []error{notNegative("Exponential.Base", p.Base), notNegative("Exponential.Max", p.Max)}
	if p.Factor != 0 && (math.IsNaN(p.Factor) || p.Factor < 1) {
		errs = append(errs, &InvalidPolicyError{Field: "Exponential.Factor", Value: p.Factor, Rule: "must be at least 1, or 0 for the default"})
	}
	if math.IsNaN(p.Jitter) || p.Jitter < 0 || p.Jitter > 1 {
		errs = append(errs, &InvalidPolicyError{Field: "Exponential.Jitter", Value: p.Jitter, Rule: "must be from 0 to 1"})
	}
	return errors.Join(errs...)
}

// Delay returns the wait after an attempt, numbered from 0.
func (p Exponential) Delay(attempt int) time.Duration {
	base, factor := p.Base, p.Factor
	if base == 0 {
		base = defaultBase
	}
	if factor == 0 {
		factor = defaultFactor
	}
	d := within(float64(base)*math.Pow(factor, nth(attempt)), p.Max)
	return d - time.Duration(p.Jitter*rand.Float64()*float64(d))
}

// Polynomial waits for Unit·(n+1)⁴, where n is the number of the attempt, from 0, plus or
// minus a random part of up to a tenth. The zero value waits for about 1, 16, 81, 256, …
// seconds, like the default policy of River
// (https://github.com/riverqueue/river/blob/master/retry_policy.go).
type Polynomial struct {
	// Unit is the wait after the first attempt. Default: one second.
	Unit time.Duration `bson:"unit" json:"unit" yaml:"unit"`
	// Max is the longest wait. Default: 0, which means no limit.
	Max time.Duration `bson:"max" json:"max" yaml:"max"`
}

// polynomialJitter is the largest part by which a wait is longer or shorter.
const polynomialJitter = 0.1

// Validate returns an error that wraps an *InvalidPolicyError for each negative field.
func (p Polynomial) Validate() error {
	return errors.Join(notNegative("Polynomial.Unit", p.Unit), notNegative("Polynomial.Max", p.Max))
}

// Delay returns the wait after an attempt, numbered from 0.
func (p Polynomial) Delay(attempt int) time.Duration {
	unit := p.Unit
	if unit == 0 {
		unit = defaultBase
	}
	jitter := 1 + polynomialJitter*(2*rand.Float64()-1)
	return within(float64(unit)*fourth(nth(attempt)+1)*jitter, p.Max)
}

// Sidekiq waits for n⁴ + 15 seconds, where n is the number of the attempt, from 0, plus a
// random time of up to 10·(n+1) seconds, like the default policy of Sidekiq
// (https://github.com/sidekiq/sidekiq/blob/main/lib/sidekiq/job_retry.rb).
type Sidekiq struct {
	// Max is the longest wait. Default: 0, which means no limit.
	Max time.Duration `bson:"max" json:"max" yaml:"max"`
}

// Validate returns an *InvalidPolicyError for a negative Max.
func (p Sidekiq) Validate() error { return notNegative("Sidekiq.Max", p.Max) }

// Delay returns the wait after an attempt, numbered from 0.
func (p Sidekiq) Delay(attempt int) time.Duration {
	n := nth(attempt)
	jitter := 10 * rand.Float64() * (n + 1)
	return within((fourth(n)+15+jitter)*float64(time.Second), p.Max)
}

// nth returns the number of an attempt as a float. There is no highest number.
func nth(attempt int) float64 { return float64(max(0, attempt)) }

// fourth returns n to the power of four.
func fourth(n float64) float64 { return math.Pow(n, 4) }

// within converts nanoseconds to a duration of at most most; if most is not positive, of
// at most longest.
func within(nanoseconds float64, most time.Duration) time.Duration {
	if most <= 0 {
		most = longest
	}
	if nanoseconds >= float64(most) {
		return most
	}
	return max(0, time.Duration(nanoseconds))
}
