package amboy

import (
	"context"
	"errors"
	"fmt"
)

// MaxTypeLimits is the maximum number of types of a queue that have a limit.
const MaxTypeLimits = 100

// maxTypeName is the maximum length, in bytes, of the name of a type with a limit.
const maxTypeName = 512

// TypeLimit limits the jobs of one type in a queue, over all processes. The zero TypeLimit is no
// limit. Jobs that may not start because of it do not hold up jobs of other types.
type TypeLimit struct {
	// MaxRunning is the number of jobs of the type that may run at once; 0 means no limit.
	MaxRunning int `json:"max_running,omitempty"`
	// Rate limits how fast jobs of the type start; nil means no limit. It must not be
	// changed in place.
	Rate *Rate `json:"rate,omitempty"`
}

// IsZero reports whether there is no limit.
func (l TypeLimit) IsZero() bool { return l == (TypeLimit{}) }

// IsStopped reports whether no job of the type may start, because the rate is 0.
func (l TypeLimit) IsStopped() bool { return l.Rate != nil && l.Rate.PerSecond == 0 }

// Validate returns an error if a field is out of range.
func (l TypeLimit) Validate() error {
	var errs []error
	if l.MaxRunning < 0 {
		errs = append(errs, fmt.Errorf("limit of a type: MaxRunning must not be negative (is %d)", l.MaxRunning))
	}
	if l.Rate != nil {
		errs = append(errs, l.Rate.Validate())
	}
	return errors.Join(errs...)
}

// ValidateTypeLimit returns an error if a job type can't have a limit because of its name, or if
// a field of the limit is out of range.
func ValidateTypeLimit(jobType string, limit TypeLimit) error {
	if jobType == "" || len(jobType) > maxTypeName {
		return fmt.Errorf("limit of a type: the type must have from 1 to %d bytes (has %d)", maxTypeName, len(jobType))
	}
	return limit.Validate()
}

// TypeLimiter is implemented by queues that can limit the jobs of a type. If the queue has a
// store, the limits are kept there and hold over all processes that share it.
type TypeLimiter interface {
	// LimitType replaces the limit of a job type; the zero TypeLimit removes it. The type
	// covers all its versions, and jobs for outside workers. Running jobs continue if the new
	// limit is lower. QueueController.Control returns the limits. LimitType returns an error
	// for an invalid limit, and if MaxTypeLimits other types have one. It blocks for the call
	// to the store, returns its errors, and is safe for concurrent use.
	LimitType(ctx context.Context, jobType string, limit TypeLimit) error
}

// LimitType limits the jobs of one type in a queue, as TypeLimiter.LimitType does. The error wraps
// errors.ErrUnsupported if the queue is no TypeLimiter.
func LimitType(ctx context.Context, q Queue, jobType string, limit TypeLimit) error {
	l, err := as[TypeLimiter](q, "limiting the jobs of a type in")
	if err != nil {
		return err
	}
	return l.LimitType(ctx, jobType, limit)
}
