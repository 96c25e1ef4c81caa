package driver

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Record is a stored job. Its Group names the queue that it belongs to, its Name
// is the ID under which it is stored (see RecordName), its Status.Owner and
// Status.ModificationCount are its lease, and its Scopes are those that it holds.
// A record that is given to a driver, or by one, stays the caller's: its fields
// may be set, but what its slices and pointers refer to is shared, and must not
// be changed.
type Record = registry.JobInterchange

// RecordName is the name under which an attempt of a job is stored. queue is
// empty in a store that holds one queue alone.
func RecordName(queue, id string, retry amboy.JobRetryInfo) string {
	if retry.Retryable {
		id = fmt.Sprintf("attempt-%d.%s", retry.CurrentAttempt, id)
	}
	if queue != "" {
		return queue + "." + id
	}
	return id
}

// StateOf is the state of a record, as amboy.StateOf derives it. Of a record that
// has not ended, its status must tell what it waits for, as Find and Get have it.
func StateOf(r *Record, now time.Time) amboy.JobState {
	return amboy.StateOf(amboy.JobInfo{Status: r.Status, Time: r.TimeInfo, Retry: r.RetryInfo}, now)
}

// Interrupt notes that the lease of a running record has ended, which RecoverStale hands
// back.
func Interrupt(r *Record, now time.Time) {
	r.Status.Interruptions = r.Status.Interruptions.With(amboy.Interruption{
		Owner: r.Status.Owner, Start: r.TimeInfo.Start, At: now,
	})
}

// InsertedState is the state in which Insert stores a record. It is
// amboy.StatePending, unless the status of the record says that it runs, or that its
// attempt has ended.
func InsertedState(r *Record) amboy.JobState {
	switch {
	case r.Status.Completed:
		return StateOf(r, time.Time{})
	case r.Status.InProgress:
		return amboy.StateRunning
	default:
		return amboy.StatePending
	}
}

// CopyContent copies what Save replaces from one record to another: the body with
// its type and version, the metadata, the errors and attempt errors, and of the retry
// info MaxAttempts, WaitUntil and DispatchBy.
func CopyContent(to, from *Record) {
	to.Job, to.Type, to.Version = from.Job, from.Type, from.Version
	to.Metadata = from.Metadata
	to.Status.Errors, to.Status.ErrorCount = from.Status.Errors, from.Status.ErrorCount
	to.Status.Attempts, to.Status.DroppedErrors = from.Status.Attempts, from.Status.DroppedErrors
	to.RetryInfo.MaxAttempts = from.RetryInfo.MaxAttempts
	to.RetryInfo.WaitUntil, to.RetryInfo.DispatchBy = from.RetryInfo.WaitUntil, from.RetryInfo.DispatchBy
}

// CheckSave returns an error that wraps ErrLeaseLost if saved is a stale copy of a
// record that is stored: the stored owner or count has moved on since it was read.
// relocked is true if the copy itself was locked or unlocked since, which counts
// modifications that are not stored. Then Save stores its owner, count and, of a
// record that does not run, modification time. The lease of a record that runs is
// renewed, for as long as before.
func CheckSave(stored, saved *amboy.JobStatusInfo) (relocked bool, err error) {
	sameOwner := stored.Owner == saved.Owner
	switch {
	case sameOwner && stored.ModificationCount == saved.ModificationCount:
		return false, nil
	case saved.ModificationCount > stored.ModificationCount && (sameOwner || !stored.InProgress):
		return true, nil
	default:
		return false, fmt.Errorf("it has changed since it was read: its owner is %q and its modification count %d, and those of the copy are %q and %d: %w",
			stored.Owner, stored.ModificationCount, saved.Owner, saved.ModificationCount, ErrLeaseLost)
	}
}

// CopyLock copies what Save replaces of a record that was relocked (see CheckSave).
func CopyLock(to, from *Record) {
	to.Status.Owner = from.Status.Owner
	to.Status.ModificationCount = from.Status.ModificationCount
	to.Status.ModificationTime = from.Status.ModificationTime
}

// EndCanceled makes a record canceled that has ended, and for which Cancel was asked
// while it ran, with that reason and ForgetAt. One that succeeded, or expired, stays as
// it is. One that its worker ended as canceled keeps its own ForgetAt, and so does any
// where that of the Cancel is zero.
func EndCanceled(ended *Record, reason string, forgetAt time.Time) {
	switch StateOf(ended, time.Time{}) {
	case amboy.StateCanceled:
	case amboy.StateRetrying, amboy.StateFailed:
		if !forgetAt.IsZero() {
			ended.ForgetAt = forgetAt
		}
	default:
		return
	}
	ended.Status.Outcome, ended.Status.Reason = amboy.OutcomeCanceled, reason
	ended.RetryInfo.NeedsRetry = false
}

// Lease is the right to run a record, and to write it. It names the owner, and
// the count that grows with each claim.
type Lease struct {
	// Queue is the record's.
	Queue string
	// Name is the record's.
	Name string
	// Owner is whoever claimed it.
	Owner string
	// Count is the record's ModificationCount when it was claimed.
	Count int
}

// LeaseOf is the lease that a record shows.
func LeaseOf(r *Record) Lease {
	return Lease{Queue: r.Group, Name: r.Name, Owner: r.Status.Owner, Count: r.Status.ModificationCount}
}

// Completion ends the attempt that runs under a lease.
type Completion struct {
	// Lease is the one under which the job ran.
	Lease Lease
	// Record replaces what is stored, but for its priority, tags, scopes, edges
	// and unique key, which stay. A record that awaits a retry keeps the scopes
	// that were taken when it was put, and gives the others up; any other gives
	// up all.
	Record *Record
}

// HandBack gives a lease back without ending the attempt.
type HandBack struct {
	Lease Lease
	// NotBefore is when the record may be claimed again; zero for at once.
	NotBefore time.Time
	// Since is when the wait until NotBefore began, by the same clock, so that one
	// which was ahead makes the wait no longer (see Driver.RecoverStale). Zero means
	// that NotBefore stays, whatever becomes of clocks.
	Since time.Time
	// Park sets the record aside: it is not claimed, and does not expire.
	// Complete, under the lease that it shows, ends it, and the action Unpark
	// lets it go on.
	Park bool
	// Reason says why, where the record is to wait. Its status shows it until
	// then.
	Reason string
}
