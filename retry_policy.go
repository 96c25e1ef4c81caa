package amboy

import "time"

// RetryPolicy says how long a job that failed waits for its next attempt. Package
// retry has some. Implementations are safe for concurrent use.
type RetryPolicy interface {
	// Delay is the wait after an attempt, numbered from 0, and before the next.
	// A negative one counts as none.
	Delay(attempt int) time.Duration
}

// RetryPolicyJob is implemented by jobs that bring a policy of their own. It is not
// stored: the job's type must know it.
type RetryPolicyJob interface {
	// RetryPolicy is asked for when an attempt failed and another follows. nil
	// stands for none.
	RetryPolicy() RetryPolicy
}

// ValidateRetryPolicy returns the error of a policy's Validate method, where it has
// one, as those of package retry do. A nil policy is valid.
func ValidateRetryPolicy(p RetryPolicy) error {
	if v, ok := p.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// RetryDelay is how long the next attempt of a job waits that failed: what the job's
// own policy says; else the WaitUntil of its retry info; else what the policy of its
// queue says, which may be nil. It is never negative.
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
