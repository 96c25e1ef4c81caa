package amboy

import "time"

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
