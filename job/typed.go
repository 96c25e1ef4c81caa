package job

import (
	"context"

	"github.com/mongodb/amboy"
)

// typed is a job of a definition. Its exported fields are what is stored of it,
// beside what queues store of any job.
type typed[A any] struct {
	typedBase `bson:"-" json:"-" yaml:"-"`
	Arguments A         `bson:"args" json:"args" yaml:"args"`
	Override  *override `bson:"override,omitempty" json:"override,omitempty" yaml:"override,omitempty"`

	definition *Definition[A]
}

// typedBase is what the jobs of all definitions have alike.
type typedBase struct {
	Base
	uniqueKey   string
	uniqueUntil amboy.UniqueUntil

	// The lock of Base guards these.
	result       any                  // a pointer to it; nil where there is none yet
	decodeResult func(into any) error // nil where none was stored
}

var (
	_ amboy.UniqueJob      = (*typed[any])(nil)
	_ amboy.TaggedJob      = (*typed[any])(nil)
	_ amboy.ArgsJob        = (*typed[any])(nil)
	_ amboy.ResultJob      = (*typed[any])(nil)
	_ amboy.RetryPolicyJob = (*typed[any])(nil)
	_ amboy.RetainedJob    = (*typed[any])(nil)
)

// Run calls the function of the definition.
func (j *typed[A]) Run(ctx context.Context) {
	j.setResult(nil)
	if err := j.definition.run(NewContext(ctx, j), j); err != nil {
		j.AddRetryableError(inTimeOf(ctx, err))
		return
	}
	j.MarkComplete()
}

// Args are the arguments.
func (j *typed[A]) Args() any { return j.Arguments }

// RetryPolicy is that of the job, or else of its definition.
func (j *typed[A]) RetryPolicy() amboy.RetryPolicy {
	if own := j.Override.retryPolicy(); own != nil {
		return own
	}
	return j.definition.defaults.RetryPolicy
}

// Retention is that of the job, or else of its definition.
func (j *typed[A]) Retention() amboy.Retention {
	if j.Override != nil && j.Override.Retention != nil {
		return *j.Override.Retention
	}
	return j.definition.defaults.Retention
}

// UniqueKey is what no other job may have, and how long this one has it.
func (j *typedBase) UniqueKey() (key string, until amboy.UniqueUntil) {
	return j.uniqueKey, j.uniqueUntil
}

// SetUniqueKey sets it. The registry calls it.
func (j *typedBase) SetUniqueKey(key string, until amboy.UniqueUntil) {
	j.uniqueKey, j.uniqueUntil = key, until
}
