package amboy

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of RetryHandlerOptions.
const (
	defaultRetryMaxAttempts = 10
	defaultRetryMaxTime     = time.Minute
	defaultRetryBackoff     = time.Second
	defaultRetryWorkers     = 1
	defaultRetryCapacity    = 4096
	unlimitedRetryCapacity  = -1
)

// RetryHandlerOptions configure a retry handler. They say how it tries to replace a
// job by its next attempt; how often a job is attempted is the job's own MaxAttempts.
//
// The handler tries in rounds. While the store refuses, it never ends a job that has
// attempts left: the job stays retrying, and after each round the wait between two
// tries is twice as long, up to five seconds, or RetryBackoff if that is longer.
type RetryHandlerOptions struct {
	// MaxRetryAttempts is how often the handler tries to replace one job in a round.
	// Default: 10.
	MaxRetryAttempts int
	// MaxRetryTime is how long a round lasts at most. Default: one minute.
	MaxRetryTime time.Duration
	// RetryBackoff is the wait between two tries of the first round. Default: one
	// second.
	RetryBackoff time.Duration
	// NumWorkers is the number of jobs that are replaced at once. Default: 1.
	NumWorkers int
	// MaxCapacity is the number of waiting jobs that the handler holds in
	// memory. -1 means that there is no limit. Default: 4096.
	MaxCapacity int
	// RetryPolicy says how long the next attempt waits of a job that does not say
	// it itself (see RetryDelay). Default: nil, for not at all.
	RetryPolicy RetryPolicy
}

// Validate sets the defaults of the fields that are zero. It returns an error
// that names every field that is negative or not valid, and then changes nothing.
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

// IsUnlimitedMaxCapacity is true where MaxCapacity is -1.
func (o *RetryHandlerOptions) IsUnlimitedMaxCapacity() bool {
	return o.MaxCapacity == unlimitedRetryCapacity
}
