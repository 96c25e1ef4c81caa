package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsideform"
)

// typed is a job of a definition. Its exported fields are stored, in addition to what
// queues store of every job.
type typed[A any] struct {
	typedBase `bson:"-" json:"-" yaml:"-"`
	// Outside is true if the job is stored for outside workers.
	Outside   bool      `bson:"outside,omitempty" json:"outside,omitempty" yaml:"outside,omitempty"`
	Arguments A         `bson:"args" json:"args" yaml:"args"`
	Override  *override `bson:"override,omitempty" json:"override,omitempty" yaml:"override,omitempty"`

	definition *Definition[A]
	// payload is the JSON that Arguments were decoded from, if the job is for outside workers.
	// It may have fields that A does not have. It is nil if Arguments were set otherwise.
	payload json.RawMessage
}

// typedBase is the part of typed that does not depend on the arguments' type.
type typedBase struct {
	Base
	unique *uniqueKey // nil for most jobs

	// The lock of Base guards these fields.
	result       any                  // a pointer to it; nil if there is none yet
	decodeResult func(into any) error // nil if none was stored
	retryIn      amboy.RetryPolicy    // replaces all other policies after this attempt
}

// uniqueKey is the unique key of a job, and how long the job holds it.
type uniqueKey struct {
	key   string
	until amboy.UniqueUntil
}

var (
	_ amboy.UniqueJob      = (*typed[any])(nil)
	_ amboy.TaggedJob      = (*typed[any])(nil)
	_ amboy.ArgsJob        = (*typed[any])(nil)
	_ amboy.ResultJob      = (*typed[any])(nil)
	_ amboy.RetryPolicyJob = (*typed[any])(nil)
	_ amboy.RetainedJob    = (*typed[any])(nil)
	_ amboy.OutsideJob     = (*typed[any])(nil)
	_ outsideform.Form     = (*typed[any])(nil)
)

// Run calls the definition's function.
func (j *typed[A]) Run(ctx context.Context) {
	j.setResult(nil)
	if err := j.definition.run(NewContext(ctx, j), j); err != nil {
		j.AddRetryableError(onQueueClock(ctx, err))
		return
	}
	j.MarkComplete()
}

// Args returns the arguments.
func (j *typed[A]) Args() any { return j.Arguments }

// ForOutside reports whether the job is stored for outside workers.
func (j *typed[A]) ForOutside() bool { return j.Outside }

// RunsHere reports whether the definition has a function in this process.
func (j *typed[A]) RunsHere() bool { return j.definition.runsHere() }

// DefaultTimeout returns the timeout of the definition's jobs, for stores whose jobs have none.
func (j *typed[A]) DefaultTimeout() time.Duration { return j.definition.settings.timeout }

// RetryPolicy returns the delay that the last run asked for, the job's own policy, or
// otherwise that of its definition.
func (j *typed[A]) RetryPolicy() amboy.RetryPolicy {
	if asked := j.askedDelay(); asked != nil {
		return asked
	}
	if own := j.Override.retryPolicy(); own != nil {
		return own
	}
	return j.definition.defaults.RetryPolicy
}

// Retention returns the job's own retention, or otherwise that of its definition.
func (j *typed[A]) Retention() amboy.Retention {
	if j.Override != nil && j.Override.Retention != nil {
		return *j.Override.Retention
	}
	return j.definition.defaults.Retention
}

// UniqueKey returns the unique key and how long the job holds it.
func (j *typedBase) UniqueKey() (key string, until amboy.UniqueUntil) {
	if j.unique == nil {
		return "", ""
	}
	return j.unique.key, j.unique.until
}

// SetUniqueKey sets the unique key. The registry calls it.
func (j *typedBase) SetUniqueKey(key string, until amboy.UniqueUntil) {
	j.unique = &uniqueKey{key: key, until: until}
}
