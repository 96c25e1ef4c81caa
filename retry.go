package amboy

import (
	"errors"
	"fmt"
	"time"
)

// RetryPolicy decides how long a failed job waits for its next attempt. Package retry
// provides implementations. Implementations are safe for concurrent use.
type RetryPolicy interface {
	// Delay is the wait between an attempt, numbered from 0, and the next. A negative
	// delay counts as none.
	Delay(attempt int) time.Duration
}

// RetryPolicyJob is implemented by jobs with a policy of their own. The policy is not
// stored: it belongs to the job's type.
type RetryPolicyJob interface {
	// RetryPolicy is called when an attempt failed and another follows. nil means that
	// the job has no policy of its own.
	RetryPolicy() RetryPolicy
}

// ValidateRetryPolicy calls the policy's Validate method, if it has one, and returns its
// error. The policies of package retry have one. A nil policy is valid.
func ValidateRetryPolicy(p RetryPolicy) error {
	if v, ok := p.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// RetryDelay is how long the next attempt of a failed job waits. It uses the job's own
// policy; otherwise the WaitUntil of its retry info; otherwise its queue's policy, which
// may be nil. It is never negative.
func RetryDelay(j Job, ofQueue RetryPolicy) time.Duration {
	retry := j.RetryInfo()
	policy := ofQueue
	if own := retryPolicyOf(j); own != nil {
		policy = own
	} else if retry.WaitUntil > 0 {
		return retry.WaitUntil
	}
	if policy == nil {
		return 0
	}
	return max(0, policy.Delay(retry.CurrentAttempt))
}

func retryPolicyOf(j Job) RetryPolicy {
	if p, ok := j.(RetryPolicyJob); ok {
		return p.RetryPolicy()
	}
	return nil
}

// The defaults of RetryHandlerOptions.
const (
	defaultRetryMaxAttempts = 10
	defaultRetryMaxTime     = time.Minute
	defaultRetryBackoff     = time.Second
	defaultRetryWorkers     = 1
	defaultRetryCapacity    = 4096
	unlimitedRetryCapacity  = -1
)

// RetryHandlerOptions configure a retry handler. They control how it tries to replace a job
// by its next attempt. The number of attempts is the job's own MaxAttempts.
//
// The handler tries in rounds. While the store refuses, it never ends a job that has
// attempts left: the job stays retrying, and after each round the wait between two tries
// doubles, up to five seconds, or RetryBackoff if that is longer.
type RetryHandlerOptions struct {
	// MaxRetryAttempts is how often the handler tries to replace a job in a round.
	// Default: 10.
	MaxRetryAttempts int
	// MaxRetryTime is the maximum length of a round. Default: one minute.
	MaxRetryTime time.Duration
	// RetryBackoff is the wait between two tries of the first round. Default: one
	// second.
	RetryBackoff time.Duration
	// NumWorkers is the number of jobs that are replaced concurrently. Default: 1.
	NumWorkers int
	// MaxCapacity is the maximum number of waiting jobs that the handler holds in
	// memory; -1 means no limit. Default: 4096.
	MaxCapacity int
	// RetryPolicy decides how long the next attempt waits, if the job does not decide
	// it itself (see RetryDelay). Default: nil, which means no wait.
	RetryPolicy RetryPolicy
}

// Validate sets the defaults of fields that are zero. If any field is invalid, it changes
// nothing and returns an error that names every invalid field.
func (o *RetryHandlerOptions) Validate() error {
	var errs []error
	refuse := func(negative bool, field string, value any) {
		if negative {
			errs = append(errs, fmt.Errorf("invalid retry handler options: %s must not be negative (is %v)", field, value))
		}
	}
	refuse(o.MaxRetryAttempts < 0, "MaxRetryAttempts", o.MaxRetryAttempts)
	refuse(o.MaxRetryTime < 0, "MaxRetryTime", o.MaxRetryTime)
	refuse(o.RetryBackoff < 0, "RetryBackoff", o.RetryBackoff)
	refuse(o.NumWorkers < 0, "NumWorkers", o.NumWorkers)
	if o.MaxCapacity < unlimitedRetryCapacity {
		errs = append(errs, fmt.Errorf("invalid retry handler options: MaxCapacity must be positive, 0 for the default, or -1 for no limit (is %d)", o.MaxCapacity))
	}
	if err := ValidateRetryPolicy(o.RetryPolicy); err != nil {
		errs = append(errs, fmt.Errorf("invalid retry handler options: RetryPolicy: %w", err))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.MaxRetryAttempts == 0 {
		o.MaxRetryAttempts = defaultRetryMaxAttempts
	}
	if o.MaxRetryTime == 0 {
		o.MaxRetryTime = defaultRetryMaxTime
	}
	if o.RetryBackoff == 0 {
		o.RetryBackoff = defaultRetryBackoff
	}
	if o.NumWorkers == 0 {
		o.NumWorkers = defaultRetryWorkers
	}
	if o.MaxCapacity == 0 {
		o.MaxCapacity = defaultRetryCapacity
	}
	return nil
}

// IsUnlimitedMaxCapacity reports whether MaxCapacity is -1.
func (o *RetryHandlerOptions) IsUnlimitedMaxCapacity() bool {
	return o.MaxCapacity == unlimitedRetryCapacity
}
