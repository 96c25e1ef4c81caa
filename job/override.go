package job

import (
	"fmt"

	"github.com/mongodb/amboy"
)

// override holds the options of a single job for which queues have no field of their own.
// It is stored with the job's arguments.
type override struct {
	RetryPolicy *storedRetryPolicy `bson:"retry_policy,omitempty" json:"retry_policy,omitempty" yaml:"retry_policy,omitempty"`
	Retention   *amboy.Retention   `bson:"retention,omitempty" json:"retention,omitempty" yaml:"retention,omitempty"`
}

// overrides returns the override of the settings, which it creates if necessary.
func (s *settings) overrides() *override {
	if s.override == nil {
		s.override = &override{}
	}
	return s.override
}

func validRetention(r amboy.Retention) error {
	if err := r.Validate(); err != nil {
		return &amboy.InvalidJobError{Field: "retention", Value: fmt.Sprintf("%+v", r), Rule: "must be valid: " + err.Error()}
	}
	return nil
}

func validRetryPolicy(p amboy.RetryPolicy) error {
	if err := amboy.ValidateRetryPolicy(p); err != nil {
		return &amboy.InvalidJobError{Field: "retry policy", Value: fmt.Sprintf("%+v", p), Rule: "must be valid: " + err.Error()}
	}
	return nil
}

// retryPolicy returns the policy of an override; nil if it has none.
func (o *override) retryPolicy() amboy.RetryPolicy {
	if o == nil || o.RetryPolicy == nil {
		return nil
	}
	return o.RetryPolicy.policy()
}
