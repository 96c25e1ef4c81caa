package job

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// Option changes one property of a job from its definition's Defaults. If two options
// change the same property, the later one wins.
type Option func(*settings)

// settings combine the defaults and the options for a job.
type settings struct {
	id               string
	waitUntil        time.Time
	delay            time.Duration
	dispatchBy       time.Time
	priority         int
	retries          bool // the job is retried even if maxAttempts is 0
	maxAttempts      int
	maxInterruptions int
	timeout          time.Duration
	after            []string
	runOnFailure     bool
	tags             []string
	scopes           []string // nil means the scopes of the defaults
	limits           []string // limited scopes, in addition
	enqueueScopes    bool
	unique           Uniqueness
	metadata         map[string]string
	payloadLimit     int // of a job of NewOutside
	override         *override
	err              error // the first error
}

// with returns a copy with the options applied.
func (s settings) with(opts []Option) *settings {
	if s.override != nil {
		own := *s.override
		s.override = &own
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	return &s
}

func (s *settings) refuse(err error) {
	if s.err == nil {
		s.err = err
	}
}

// invalid records an error for an invalid value.
func (s *settings) invalid(field string, value any, rule string) {
	s.refuse(&amboy.InvalidJobError{Field: field, Value: value, Rule: rule})
}

// ID sets the job's ID, which must be unique in its queue.
func ID(id string) Option {
	return func(s *settings) {
		if id == "" {
			s.invalid("ID", id, "must not be empty")
		}
		s.id = id
	}
}

// At makes the job run at t or later; the zero time means at once.
func At(t time.Time) Option {
	return func(s *settings) { s.waitUntil, s.delay = t, 0 }
}

// In makes the job run after a delay, which must not be negative.
func In(delay time.Duration) Option {
	return func(s *settings) {
		if delay < 0 {
			s.invalid("delay", delay, "must not be negative")
		}
		s.waitUntil, s.delay = time.Time{}, delay
	}
}

// DispatchBy makes the job expire if it has not started by t.
func DispatchBy(t time.Time) Option {
	return func(s *settings) { s.dispatchBy = t }
}

// Priority sets the job's priority; larger runs first.
func Priority(p int) Option {
	return func(s *settings) { s.setPriority(p) }
}

func (s *settings) setPriority(p int) { s.priority = p }

// MaxAttempts sets the total number of attempts. 0 means 1 or, if there is a retry policy,
// amboy.DefaultMaxAttempts. It must not be negative.
func MaxAttempts(n int) Option {
	return func(s *settings) { s.setMaxAttempts(n) }
}

func (s *settings) setMaxAttempts(n int) {
	if n < 0 {
		s.invalid("max attempts", n, "must not be negative")
	}
	s.maxAttempts = n
}

// MaxInterruptions sets how often an attempt may be interrupted, for instance because its
// process dies, before the job is parked. 0 means the queue's limit. It must not be
// negative.
func MaxInterruptions(n int) Option {
	return func(s *settings) { s.setMaxInterruptions(n) }
}

func (s *settings) setMaxInterruptions(n int) {
	if n < 0 {
		s.invalid("max interruptions", n, "must not be negative")
	}
	s.maxInterruptions = n
}

// Timeout sets how long an attempt may run; 0 means no limit. It must not be negative.
func Timeout(d time.Duration) Option {
	return func(s *settings) { s.setTimeout(d) }
}

func (s *settings) setTimeout(d time.Duration) {
	if d < 0 {
		s.invalid("timeout", d, "must not be negative")
	}
	s.timeout = d
}

// After makes the job wait until other jobs of the same queue have ended. If any of them
// does not succeed, the job fails without running, unless RunOnFailure is given.
func After(ids ...string) Option {
	return func(s *settings) {
		s.after = nil
		for _, id := range ids {
			if id == "" {
				s.invalid("ID of a job to run after", id, "must not be empty")
			}
			if !slices.Contains(s.after, id) {
				s.after = append(s.after, id)
			}
		}
	}
}

// RunOnFailure makes the job run after the jobs of After have ended, also if some of them do
// not succeed.
func RunOnFailure() Option {
	return func(s *settings) { s.runOnFailure = true }
}

// Tags sets the tags by which operators find the job. No tag may be empty.
func Tags(tags ...string) Option {
	return func(s *settings) { s.setTags(tags) }
}

func (s *settings) setTags(tags []string) {
	if slices.Contains(tags, "") {
		s.invalid("tag", "", "must not be empty")
	}
	s.tags = unique(tags)
}

// Metadata sets data that is kept with the job, for instance for middleware. A nil or empty
// map sets none. No key and no value may be empty.
func Metadata(data map[string]string) Option {
	return func(s *settings) {
		for key, value := range data {
			if key == "" || value == "" {
				s.invalid("metadata", key+"="+value, "must have neither empty keys nor empty values")
			}
		}
		s.metadata = data
	}
}

// EnqueueScopes sets whether Put takes the job's scopes, and the job holds them until its
// last attempt has ended. The job must not depend on one that needs such a scope and has not
// started: the two would wait for each other until one is canceled or expires.
func EnqueueScopes(take bool) Option {
	return func(s *settings) { s.enqueueScopes = take }
}

// Scopes sets the locks that the job holds while it runs. No name may be empty.
func Scopes(scopes ...string) Option {
	return func(s *settings) {
		s.scopes = append([]string{}, unique(scopes)...) // not nil
	}
}

// Limit lets the job begin only while fewer than n jobs of its queue run that have a limit with
// this key, in all processes that share the store. It adds amboy.LimitScope(key, n), whose
// comment has the rules, to the scopes of the job, whether they come from Scopes, in any order,
// or from the definition. A limit of a later option with the same key replaces it. The key must
// not be empty, and n must be from 1 to amboy.MaxScopeLimit.
func Limit(key string, n int) Option {
	return func(s *settings) {
		if key == "" {
			s.invalid("limit key", key, "must not be empty")
		}
		if n < 1 || n > amboy.MaxScopeLimit {
			s.invalid("limit of "+key, n, fmt.Sprintf("must be from 1 to %d", amboy.MaxScopeLimit))
		}
		s.limits = append(slices.DeleteFunc(slices.Clone(s.limits), func(scope string) bool {
			other, _, _ := amboy.ScopeLimit(scope)
			return other == key
		}), amboy.LimitScope(key, n))
	}
}

// RetryPolicy sets how long the next attempt of the job waits. The policy is stored with
// the job, so it must be one of package retry.
func RetryPolicy(p amboy.RetryPolicy) Option {
	return func(s *settings) {
		stored, err := storeRetryPolicy(p)
		s.refuse(err)
		s.overrides().RetryPolicy = stored
		s.retries = stored != nil
	}
}

// Retention sets how long the job is kept after it has ended. Fields of 0 mean the queue's
// setting, not the definition's.
func Retention(r amboy.Retention) Option {
	return func(s *settings) {
		s.refuse(validRetention(r))
		s.overrides().Retention = &r
	}
}

// idLength is the length of the random part of a generated ID.
const idLength = 26

// apply applies the settings, except the unique key, to a new job.
func (s *settings) apply(j *typedBase, q amboy.Queue) error {
	if s.err != nil {
		return s.err
	}
	j.Name = s.id
	if j.Name == "" {
		j.Name = j.JobType.Name + "-" + rand.Text()
	}
	j.priority = s.priority
	j.times.WaitUntil, j.times.DispatchBy, j.times.MaxTime = s.waitUntil, s.dispatchBy, s.timeout
	if s.delay > 0 {
		j.times.WaitUntil = amboy.Now(q).Add(s.delay)
	}
	j.setRetryInfo(amboy.JobRetryInfo{
		Retryable:        s.maxAttempts > 1 || (s.maxAttempts == 0 && s.retries),
		MaxAttempts:      s.maxAttempts,
		MaxInterruptions: s.maxInterruptions,
	})
	if s.scopes != nil {
		j.RequiredScopes = s.scopes
	}
	if len(s.limits) > 0 {
		j.RequiredScopes = unique(slices.Concat(j.RequiredScopes, s.limits))
	}
	j.SetEnqueueAllScopes(s.enqueueScopes)
	j.SetTags(s.tags)
	for key, value := range s.metadata {
		j.SetMetadata(key, value)
	}
	for _, id := range s.after {
		if err := j.Dependency().AddEdge(id); err != nil {
			return fmt.Errorf("adding a dependency on job %q: %w", id, err)
		}
	}
	if chooser, ok := j.Dependency().(dependency.FailureChooser); ok && s.runOnFailure {
		chooser.SetOnFailure(dependency.RunOnFailure)
	}
	return nil
}
