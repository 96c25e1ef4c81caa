package job

import (
	"fmt"

	"github.com/mongodb/amboy"
)

// override is what the options of one job say that is stored with it and not known
// of any job.
type override struct {
	RetryPolicy *storedRetryPolicy `bson:"retry_policy,omitempty" json:"retry_policy,omitempty" yaml:"retry_policy,omitempty"`
	Retention   *amboy.Retention   `bson:"retention,omitempty" json:"retention,omitempty" yaml:"retention,omitempty"`
}

// overrides is the part of settings that is stored, of which no other job has a
// share.
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

// retryPolicy is the policy that an override has; nil where it has none.
func (o *override) retryPolicy() amboy.RetryPolicy {
	if o == nil || o.RetryPolicy == nil {
		return nil
	}
	return o.RetryPolicy.policy()
}
