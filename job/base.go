// Package job provides the building blocks of jobs: typed definitions (Define), Base, which
// implements every method of amboy.Job except Run, and ready-made jobs that run a
// command or a group of jobs.
//
// The context of a run ends with one of these causes (context.Cause):
//
//   - an *amboy.MaxTimeError, which is a context.DeadlineExceeded, if the attempt has run for
//     its Timeout;
//   - amboy.ErrAborted if the job was aborted or canceled;
//   - amboy.ErrLeaseLost if its lease was lost, so that another process may have the job;
//   - pool.ErrClosed if the deadline of Close passed;
//   - the cause of the context of Start if that ended.
package job

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// Base implements every method of amboy.Job except Run, and amboy.Prioritized. Job types
// embed it, with or without tags:
//
//	type resize struct {
//		job.Base `bson:"job_base" json:"job_base"`
//		Path     string `bson:"path" json:"path"`
//	}
//
// The zero value is ready to use. Before the job is put, set its ID and, if the queue
// stores jobs, JobType. The methods are safe for concurrent use. The exported fields must
// not be written once the job is in a queue. A Base must not be copied after first use.
type Base struct {
	// Name is the job's ID.
	Name string `bson:"name" json:"name" yaml:"name"`
	// JobType is the job's registered type and its current version.
	JobType amboy.JobType `bson:"job_type" json:"job_type" yaml:"job_type"`
	// RequiredScopes are the job's scopes.
	RequiredScopes []string `bson:"required_scopes" json:"required_scopes" yaml:"required_scopes"`

	mu         sync.Mutex
	priority   int
	status     amboy.JobStatusInfo
	times      amboy.JobTimeInfo
	retry      *amboy.JobRetryInfo // nil for the zero value, which most jobs have
	always     dependency.Always
	dependency dependency.Manager
	// extras is nil for most jobs. It is set under the lock, and can be read without it.
	extras atomic.Pointer[extras]
}

var (
	_ amboy.Prioritized  = (*Base)(nil)
	_ amboy.SnoozableJob = (*Base)(nil)
	_ amboy.MetadataJob  = (*Base)(nil)
)

// ID returns the job's ID.
func (b *Base) ID() string { return b.Name }

// SetID sets the job's ID. It must be called before Put.
func (b *Base) SetID(id string) { b.Name = id }

// Type returns the job's type and version.
func (b *Base) Type() amboy.JobType { return b.JobType }

// SetType sets the job's type and version. The registry calls it when it reads a job that
// was stored under an older version.
func (b *Base) SetType(t amboy.JobType) { b.JobType = t }

// Priority returns the job's priority. Jobs with a larger priority run first; the default
// is 0.
func (b *Base) Priority() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.priority
}

// SetPriority sets the job's priority. It must be called before Put.
func (b *Base) SetPriority(p int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.priority = p
}

// MarkComplete records that the job has done its work. By convention Run begins with
// "defer j.MarkComplete()". A job that returns without calling it is complete all the same.
func (b *Base) MarkComplete() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Completed = true
}

// AddError records an error of this attempt; it ignores nil. An *amboy.CancelError makes
// the job end as canceled. An *amboy.SnoozeError is not recorded; it has the effect of
// Snooze.
func (b *Base) AddError(err error) { b.report(err, false) }

// AddRetryableError records an error of this attempt and asks for another attempt, which
// queues ignore if the job is not retryable. It ignores nil. If amboy.IsNonRetryable is
// true for any error of the attempt, no other attempt follows. Otherwise it works like
// AddError.
func (b *Base) AddRetryableError(err error) { b.report(err, true) }

// HasErrors reports whether this attempt has errors.
func (b *Base) HasErrors() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.status.Errors) > 0
}

// Error joins the messages of this attempt's errors with newlines. It is nil if there are
// none. errors.Is and errors.As find errors that were added to this value, but not errors
// that were read from a store.
func (b *Base) Error() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.status.Errors) == 0 {
		return nil
	}
	return newAttemptError(b.status.Errors, b.extras.Load())
}

// Lock takes the job's lock for owner, as amboy.Job describes.
func (b *Base) Lock(owner string, timeout time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lockedByOther(owner, timeout) {
		return fmt.Errorf("locking job %q for %q: %q has held the lock since %s",
			b.Name, owner, b.status.Owner, b.status.ModificationTime.Format(time.RFC3339Nano))
	}
	b.status.Owner = owner
	b.status.ModificationTime = time.Now()
	b.status.ModificationCount++
	return nil
}

// Unlock releases the job's lock. It does nothing while another owner holds it.
func (b *Base) Unlock(owner string, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lockedByOther(owner, timeout) {
		return
	}
	b.status.InProgress = false
	b.status.Owner = ""
	b.status.ModificationTime = time.Now()
	b.status.ModificationCount++
}

// lockedByOther reports whether another owner holds a lock that is not stale.
func (b *Base) lockedByOther(owner string, timeout time.Duration) bool {
	active := b.status.InProgress || (b.status.Completed && b.retryInfo().ShouldRetry())
	fresh := time.Since(b.status.ModificationTime) < timeout
	return active && fresh && b.status.Owner != "" && b.status.Owner != owner
}

// Status reports what a queue stores about the job's progress.
func (b *Base) Status() amboy.JobStatusInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.Errors = slices.Clone(status.Errors)
	status.Attempts = slices.Clone(status.Attempts)
	return status
}

// SetStatus replaces the status.
func (b *Base) SetStatus(status amboy.JobStatusInfo) {
	status.Errors = slices.Clone(status.Errors)
	status.Attempts = slices.Clone(status.Attempts)
	status.ErrorCount = len(status.Errors)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.extras.Load(); r != nil && !slices.Equal(status.Errors, b.status.Errors) {
		r.causes, r.final = nil, false
	}
	b.status = status
}

// TimeInfo reports the job's times.
func (b *Base) TimeInfo() amboy.JobTimeInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times
}

// SetTimeInfo replaces the job's times.
func (b *Base) SetTimeInfo(times amboy.JobTimeInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times = times
}

// UpdateTimeInfo changes the times that are set in the argument.
func (b *Base) UpdateTimeInfo(times amboy.JobTimeInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, change := range []struct {
		field *time.Time
		value time.Time
	}{
		{&b.times.Created, times.Created},
		{&b.times.Start, times.Start},
		{&b.times.End, times.End},
		{&b.times.WaitUntil, times.WaitUntil},
		{&b.times.DispatchBy, times.DispatchBy},
	} {
		if !change.value.IsZero() {
			*change.field = change.value
		}
	}
	if times.MaxTime != 0 {
		b.times.MaxTime = times.MaxTime
	}
}

// RetryInfo reports how the job is retried.
func (b *Base) RetryInfo() amboy.JobRetryInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	info := b.retryInfo()
	if info.Retryable {
		info.BaseJobID = b.Name
	}
	return info
}

// UpdateRetryInfo changes the fields that are not nil in the argument.
func (b *Base) UpdateRetryInfo(opts amboy.JobRetryOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info := b.retryInfo()
	set(&info.Retryable, opts.Retryable)
	set(&info.NeedsRetry, opts.NeedsRetry)
	set(&info.CurrentAttempt, opts.CurrentAttempt)
	set(&info.MaxAttempts, opts.MaxAttempts)
	set(&info.DispatchBy, opts.DispatchBy)
	set(&info.WaitUntil, opts.WaitUntil)
	set(&info.Start, opts.Start)
	set(&info.End, opts.End)
	set(&info.MaxInterruptions, opts.MaxInterruptions)
	b.setRetryInfo(info)
}

// retryInfo returns how the job is retried. The caller holds the lock.
func (b *Base) retryInfo() amboy.JobRetryInfo {
	if b.retry == nil {
		return amboy.JobRetryInfo{}
	}
	return *b.retry
}

// setRetryInfo changes how the job is retried. The caller holds the lock.
func (b *Base) setRetryInfo(info amboy.JobRetryInfo) {
	switch {
	case b.retry != nil:
		*b.retry = info
	case info != amboy.JobRetryInfo{}:
		stored := info // so that only such a value is allocated
		b.retry = &stored
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// IsLastAttempt reports whether no attempt will follow this one.
func (b *Base) IsLastAttempt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	info := b.retryInfo()
	return !info.ShouldRetry() || info.GetRemainingAttempts() == 0
}

// Dependency returns the manager that was set. By default it is one that is always ready,
// to which edges can be added.
func (b *Base) Dependency() dependency.Manager {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dependency != nil {
		return b.dependency
	}
	if b.always.T.Name == "" {
		b.always = dependency.MakeAlways()
	}
	return &b.always
}

// SetDependency replaces the manager; nil restores the default. It must be called before
// Put.
func (b *Base) SetDependency(m dependency.Manager) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dependency = m
}

// Scopes returns the names of the locks that the job must hold while it runs.
func (b *Base) Scopes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.RequiredScopes) == 0 {
		return nil
	}
	return slices.Clone(b.RequiredScopes)
}

// SetScopes replaces the scopes and removes duplicates. It must be called before Put.
func (b *Base) SetScopes(scopes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.RequiredScopes = unique(scopes)
}

// EnqueueScopes returns the subset of the scopes that Put takes; nil if it is empty.
func (b *Base) EnqueueScopes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.RequiredScopes) == 0 {
		return nil
	}
	r := b.extras.Load()
	if r == nil {
		return nil
	}
	var scopes []string
	if r.enqueueAllScopes {
		for _, scope := range b.RequiredScopes {
			if _, _, limited := amboy.ScopeLimit(scope); !limited {
				scopes = append(scopes, scope)
			}
		}
		return scopes
	}
	for _, scope := range r.enqueueScopes {
		if slices.Contains(b.RequiredScopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// SetEnqueueScopes sets the scopes that Put takes. It must be called before Put.
func (b *Base) SetEnqueueScopes(scopes ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(scopes) > 0 || b.extras.Load() != nil {
		b.ensureExtras().enqueueScopes = unique(scopes)
	}
}

// EnqueueAllScopes reports whether Put takes all scopes, except limited ones (see
// amboy.LimitScope).
func (b *Base) EnqueueAllScopes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.extras.Load()
	return r != nil && r.enqueueAllScopes
}

// SetEnqueueAllScopes sets whether Put takes all scopes. It must be called before Put.
func (b *Base) SetEnqueueAllScopes(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all || b.extras.Load() != nil {
		b.ensureExtras().enqueueAllScopes = all
	}
}

// unique returns the names in order and without duplicates, or nil if there are none.
func unique(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
