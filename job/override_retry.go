package job

import (
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/retry"
)

// storedRetryPolicy is the stored form of a policy of package retry. Exactly one field is
// set.
type storedRetryPolicy struct {
	Fixed       *retry.Fixed       `bson:"fixed,omitempty" json:"fixed,omitempty" yaml:"fixed,omitempty"`
	Exponential *retry.Exponential `bson:"exponential,omitempty" json:"exponential,omitempty" yaml:"exponential,omitempty"`
	Polynomial  *retry.Polynomial  `bson:"polynomial,omitempty" json:"polynomial,omitempty" yaml:"polynomial,omitempty"`
	Sidekiq     *retry.Sidekiq     `bson:"sidekiq,omitempty" json:"sidekiq,omitempty" yaml:"sidekiq,omitempty"`
}

// storeRetryPolicy converts a policy to its stored form.
func storeRetryPolicy(p amboy.RetryPolicy) (*storedRetryPolicy, error) {
	if err := validRetryPolicy(p); err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case retry.Fixed:
		return &storedRetryPolicy{Fixed: &p}, nil
	case retry.Exponential:
		return &storedRetryPolicy{Exponential: &p}, nil
	case retry.Polynomial:
		return &storedRetryPolicy{Polynomial: &p}, nil
	case retry.Sidekiq:
		return &storedRetryPolicy{Sidekiq: &p}, nil
	default:
		return nil, &amboy.InvalidJobError{Field: "retry policy", Value: fmt.Sprintf("%T", p), Rule: "must be one of package retry, by value, to be stored with the job"}
	}
}

// policy converts the stored form back to a policy; nil if no field is set.
func (s *storedRetryPolicy) policy() amboy.RetryPolicy {
	switch {
	case s.Fixed != nil:
		return *s.Fixed
	case s.Exponential != nil:
		return *s.Exponential
	case s.Polynomial != nil:
		return *s.Polynomial
	case s.Sidekiq != nil:
		return *s.Sidekiq
	default:
		return nil
	}
}
