// Package job has what jobs are made of: Base, which implements all of
// amboy.Job but Run, and ready-made jobs that run a command or a group of jobs.
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

// Base implements all of amboy.Job but Run, and amboy.Prioritized. Job types
// embed it, under a tag of their choice or none:
//
//	type resize struct {
//		job.Base `bson:"job_base" json:"job_base"`
//		Path     string `bson:"path" json:"path"`
//	}
//
// The zero value is ready to use; set an ID before the job is put, and JobType
// where the job is stored. It is safe for concurrent use, but for the exported
// fields, which must not be written once the job is in a queue. It must not be
// copied after first use.
type Base struct {
	// Name is the job's ID.
	Name string `bson:"name" json:"name" yaml:"name"`
	// JobType is the registered type of the job and its current version.
	JobType amboy.JobType `bson:"job_type" json:"job_type" yaml:"job_type"`
	// RequiredScopes are the job's scopes.
	RequiredScopes []string `bson:"required_scopes" json:"required_scopes" yaml:"required_scopes"`

	mu               sync.Mutex
	priority         int
	status           amboy.JobStatusInfo
	times            amboy.JobTimeInfo
	retry            amboy.JobRetryInfo
	enqueueAllScopes bool
	enqueueScopes    []string
	always           dependency.Always
	dependency       dependency.Manager
	// rare is nil for most jobs. It is set under the lock, and can be read without.
	rare atomic.Pointer[rare]
}

var (
	_ amboy.Prioritized  = (*Base)(nil)
	_ amboy.SnoozableJob = (*Base)(nil)
	_ amboy.MetadataJob  = (*Base)(nil)
)

// ID is the job's ID.
func (b *Base) ID() string { return b.Name }

// SetID sets the job's ID. It must be called before Put.
func (b *Base) SetID(id string) { b.Name = id }

// Type is the job's type and version.
func (b *Base) Type() amboy.JobType { return b.JobType }

// SetType sets the job's type and version. The registry calls it when it reads
// a job that was stored under an older version.
func (b *Base) SetType(t amboy.JobType) { b.JobType = t }

// Priority is the job's priority; larger runs sooner, the default is 0.
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

// MarkComplete states that the job did what it had to do. By convention Run
// begins with "defer j.MarkComplete()". A job that returns without it is
// complete all the same.
func (b *Base) MarkComplete() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Completed = true
}

// AddError records an error of this attempt; nil does nothing. An *amboy.CancelError
// makes the job end as canceled. An *amboy.SnoozeError is not recorded, and is
// Snooze.
func (b *Base) AddError(err error) { b.report(err, false) }

// AddRetryableError records an error of this attempt and asks for another attempt,
// which queues ignore if the job is not retryable; nil does nothing. An attempt with an error
// for which amboy.IsNonRetryable is true is not followed by another. Other errors
// are treated as by AddError.
func (b *Base) AddRetryableError(err error) { b.report(err, true) }

// HasErrors is true where this attempt has errors.
func (b *Base) HasErrors() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.status.Errors) > 0
}

// Error joins the messages of this attempt's errors with newlines. It is nil
// where there are none. Where they were added to this very job, and not read from
// a store, errors.Is and errors.As see them.
func (b *Base) Error() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.status.Errors) == 0 {
		return nil
	}
	return newAttemptError(b.status.Errors, b.rare.Load())
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

// Unlock gives the job's lock up. It does nothing while somebody else holds it.
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

// lockedByOther is true while an owner other than the given one holds a lock
// that is not stale.
func (b *Base) lockedByOther(owner string, timeout time.Duration) bool {
	active := b.status.InProgress || (b.status.Completed && b.retry.ShouldRetry())
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

// SetStatus replaces what Status reports.
func (b *Base) SetStatus(status amboy.JobStatusInfo) {
	status.Errors = slices.Clone(status.Errors)
	status.Attempts = slices.Clone(status.Attempts)
	status.ErrorCount = len(status.Errors)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rare.Load(); r != nil && !slices.Equal(status.Errors, b.status.Errors) {
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
	info := b.retry
	if info.Retryable {
		info.BaseJobID = b.Name
	}
	return info
}

// UpdateRetryInfo changes the fields that are not nil in the argument.
func (b *Base) UpdateRetryInfo(opts amboy.JobRetryOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.retry.Retryable, opts.Retryable)
	set(&b.retry.NeedsRetry, opts.NeedsRetry)
	set(&b.retry.CurrentAttempt, opts.CurrentAttempt)
	set(&b.retry.MaxAttempts, opts.MaxAttempts)
	set(&b.retry.DispatchBy, opts.DispatchBy)
	set(&b.retry.WaitUntil, opts.WaitUntil)
	set(&b.retry.Start, opts.Start)
	set(&b.retry.End, opts.End)
	set(&b.retry.MaxInterruptions, opts.MaxInterruptions)
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// IsLastAttempt is true where no attempt will follow this one.
func (b *Base) IsLastAttempt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.retry.ShouldRetry() || b.retry.GetRemainingAttempts() == 0
}

// Dependency is the manager that was set, and until then one that is always
// ready, to which edges can be added.
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

// SetDependency replaces the manager; nil brings the one back that is always
// ready. It must be called before Put.
func (b *Base) SetDependency(m dependency.Manager) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dependency = m
}

// Scopes are the locks that the job must hold while it runs.
func (b *Base) Scopes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.RequiredScopes) == 0 {
		return nil
	}
	return slices.Clone(b.RequiredScopes)
}

// SetScopes replaces the scopes, leaving out repeated ones. It must be called
// before Put.
func (b *Base) SetScopes(scopes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.RequiredScopes = unique(scopes)
}

// EnqueueScopes is the part of the scopes that is taken by Put; nil where there
// is none.
func (b *Base) EnqueueScopes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.RequiredScopes) == 0 {
		return nil
	}
	if b.enqueueAllScopes {
		return slices.Clone(b.RequiredScopes)
	}
	var scopes []string
	for _, scope := range b.enqueueScopes {
		if slices.Contains(b.RequiredScopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// SetEnqueueScopes chooses the scopes that are taken by Put. It must be called
// before Put.
func (b *Base) SetEnqueueScopes(scopes ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueueScopes = unique(scopes)
}

// EnqueueAllScopes is true where all scopes are taken by Put.
func (b *Base) EnqueueAllScopes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.enqueueAllScopes
}

// SetEnqueueAllScopes chooses whether all scopes are taken by Put. It must be
// called before Put.
func (b *Base) SetEnqueueAllScopes(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueueAllScopes = all
}

// unique returns the names without repetitions, in their order, nil where there
// are none.
func unique(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
