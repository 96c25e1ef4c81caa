package job

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
)

// Option says how one job of a Definition differs from the definition's Defaults. Of
// two that say the same the later one counts.
type Option func(*settings)

// settings are what the defaults and the options make of a job.
type settings struct {
	id               string
	waitUntil        time.Time
	delay            time.Duration
	dispatchBy       time.Time
	priority         int
	retries          bool // also where maxAttempts is 0
	maxAttempts      int
	maxInterruptions int
	timeout          time.Duration
	after            []string
	tags             []string
	scopes           []string // nil for those of the defaults
	enqueueScopes    bool
	unique           Uniqueness
	override         *override
	err              error // the first
}

// with applies options to a copy.
func (s settings) with(opts []Option) *settings {
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

// invalid refuses a value.
func (s *settings) invalid(field string, value any, rule string) {
	s.refuse(&amboy.InvalidJobError{Field: field, Value: value, Rule: rule})
}

// ID gives the job that ID, which must be unique in its queue.
func ID(id string) Option {
	return func(s *settings) {
		if id == "" {
			s.invalid("ID", id, "must not be empty")
		}
		s.id = id
	}
}

// At makes the job run at that time or later; zero for at once.
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

// DispatchBy makes the job expire where it has not started by that time.
func DispatchBy(t time.Time) Option {
	return func(s *settings) { s.dispatchBy = t }
}

// Priority gives the job that priority; larger runs sooner.
func Priority(p int) Option {
	return func(s *settings) { s.setPriority(p) }
}

func (s *settings) setPriority(p int) { s.priority = p }

// MaxAttempts is how often the job is tried, in all. 0 stands for 1, and, where
// there is a retry policy, for amboy.DefaultMaxAttempts. It must not be negative.
func MaxAttempts(n int) Option {
	return func(s *settings) { s.setMaxAttempts(n) }
}

func (s *settings) setMaxAttempts(n int) {
	if n < 0 {
		s.invalid("max attempts", n, "must not be negative")
	}
	s.maxAttempts = n
}

// MaxInterruptions is how often an attempt may be interrupted, because its process dies
// for instance, before the job is parked. 0 means as often as the queue allows. It must not
// be negative.
func MaxInterruptions(n int) Option {
	return func(s *settings) { s.setMaxInterruptions(n) }
}

func (s *settings) setMaxInterruptions(n int) {
	if n < 0 {
		s.invalid("max interruptions", n, "must not be negative")
	}
	s.maxInterruptions = n
}

// Timeout is how long an attempt may run; 0 means no limit. It must not be negative.
func Timeout(d time.Duration) Option {
	return func(s *settings) { s.setTimeout(d) }
}

func (s *settings) setTimeout(d time.Duration) {
	if d < 0 {
		s.invalid("timeout", d, "must not be negative")
	}
	s.timeout = d
}

// After makes the job wait until jobs of the same queue have ended. It fails, without
// being run, where one of them does not succeed.
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

// Tags are those by which people find the job. No tag may be empty.
func Tags(tags ...string) Option {
	return func(s *settings) { s.setTags(tags) }
}

func (s *settings) setTags(tags []string) {
	if slices.Contains(tags, "") {
		s.invalid("tag", "", "must not be empty")
	}
	s.tags = unique(tags)
}

// Scopes names the locks that the job holds while it runs. No name may be empty.
func Scopes(scopes ...string) Option {
	return func(s *settings) {
		s.scopes = append([]string{}, unique(scopes)...) // not nil
	}
}

// RetryPolicy says how long the next attempt of the job waits. It is stored with the
// job, and must be one of package retry.
func RetryPolicy(p amboy.RetryPolicy) Option {
	return func(s *settings) {
		stored, err := storeRetryPolicy(p)
		s.refuse(err)
		s.overrides().RetryPolicy = stored
		s.retries = stored != nil
	}
}

// Retention is how long the job is kept when it has ended. Fields of 0 stand for what
// the queue's says, and not for what the definition's says.
func Retention(r amboy.Retention) Option {
	return func(s *settings) {
		s.refuse(validRetention(r))
		s.overrides().Retention = &r
	}
}

// idLength is the length of the random part of a generated ID.
const idLength = 26

// apply makes a new job what the settings say, but for its unique key.
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
	j.retry.Retryable = s.maxAttempts > 1 || (s.maxAttempts == 0 && s.retries)
	j.retry.MaxAttempts = s.maxAttempts
	j.retry.MaxInterruptions = s.maxInterruptions
	if s.scopes != nil {
		j.RequiredScopes = s.scopes
	}
	j.enqueueAllScopes = s.enqueueScopes
	j.SetTags(s.tags)
	for _, id := range s.after {
		if err := j.Dependency().AddEdge(id); err != nil {
			return fmt.Errorf("making it run after job %q: %w", id, err)
		}
	}
	return nil
}
