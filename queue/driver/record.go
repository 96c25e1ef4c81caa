package driver

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Record is a stored job. Its Group is the name of its queue, and its Name is the ID
// under which it is stored (see RecordName). Its Status.Owner and
// Status.ModificationCount are its lease, together with its Stamp, and its Scopes are the
// scopes that it holds. A record that is passed to or returned by a driver belongs to the
// caller: its fields may be set, but what its slices and pointers refer to is shared and must
// not be changed.
type Record = registry.JobInterchange

// RecordName returns the name under which an attempt of a job is stored. queue is empty
// in a store that holds a single queue. A name does not identify a record without its queue: the job
// b.c of queue a and the job c of queue a.b have the same.
func RecordName(queue, id string, retry amboy.JobRetryInfo) string {
	if retry.Retryable {
		id = fmt.Sprintf("attempt-%d.%s", retry.CurrentAttempt, id)
	}
	if queue != "" {
		return queue + "." + id
	}
	return id
}

// StateOf returns the state of a record, as amboy.StateOf derives it. The status of a
// record that has not ended must show what it waits for, as Find and Get return it.
func StateOf(r *Record, now time.Time) amboy.JobState {
	return amboy.StateOf(amboy.JobInfo{Status: r.Status, Time: r.TimeInfo, Retry: r.RetryInfo}, now)
}

// Interrupt records an interruption of a running record whose lease was given until leaseEnded;
// zero if that is not known. RecoverStale calls it before it hands the lease back.
func Interrupt(r *Record, leaseEnded, now time.Time) {
	r.Status.Interruptions = r.Status.Interruptions.With(amboy.Interruption{
		Owner: r.Status.Owner, Start: r.TimeInfo.Start, LeaseEnded: leaseEnded, At: now,
	})
}

// InsertedState is the state in which Insert stores a record. It is amboy.StatePending,
// unless the status of the record shows that it runs or that its attempt has ended.
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

// CopyContent copies the fields that Save replaces: the body with its type and version,
// the metadata, the errors and attempt errors, and MaxAttempts, WaitUntil and DispatchBy
// of the retry info.
func CopyContent(to, from *Record) {
	to.Job, to.Type, to.Version = from.Job, from.Type, from.Version
	to.Metadata = from.Metadata
	to.Status.Errors, to.Status.ErrorCount = from.Status.Errors, from.Status.ErrorCount
	to.Status.Attempts, to.Status.DroppedErrors = from.Status.Attempts, from.Status.DroppedErrors
	to.RetryInfo.MaxAttempts = from.RetryInfo.MaxAttempts
	to.RetryInfo.WaitUntil, to.RetryInfo.DispatchBy = from.RetryInfo.WaitUntil, from.RetryInfo.DispatchBy
}

// CheckSave returns an error that wraps ErrLeaseLost if saved is stale, that is, if the
// stored owner or count changed since saved was read, or if saved has the Stamp of another
// lease. A copy whose Stamp is 0, such as one made from a job, is of whichever job has its
// owner and count. relocked is true if the copy itself was locked or unlocked since, which
// counts modifications that are not stored. Save then stores the copy's owner and count and,
// if the record does not run, its modification time. If the record runs, its lease is renewed
// for the same length as before.
func CheckSave(storedRecord, savedRecord *Record) (relocked bool, err error) {
	stored, saved := &storedRecord.Status, &savedRecord.Status
	sameOwner := stored.Owner == saved.Owner
	switch {
	case savedRecord.Stamp != 0 && savedRecord.Stamp != storedRecord.Stamp:
		return false, fmt.Errorf("the copy was read under the lease of an earlier run, or of an earlier job with its ID: %w", ErrLeaseLost)
	case sameOwner && stored.ModificationCount == saved.ModificationCount:
		return false, nil
	case saved.ModificationCount > stored.ModificationCount && (sameOwner || !stored.InProgress):
		return true, nil
	default:
		return false, fmt.Errorf("job changed since it was read: the stored owner is %q and the modification count %d, but the copy has %q and %d: %w",
			stored.Owner, stored.ModificationCount, saved.Owner, saved.ModificationCount, ErrLeaseLost)
	}
}

// CopyLock copies the lock fields that Save replaces if a record was relocked (see
// CheckSave).
func CopyLock(to, from *Record) {
	to.Status.Owner = from.Status.Owner
	to.Status.ModificationCount = from.Status.ModificationCount
	to.Status.ModificationTime = from.Status.ModificationTime
}

// EndCanceled marks an ended record as canceled, with the given reason and ForgetAt,
// because Cancel was requested while it ran. A record that succeeded or expired is not
// changed. A record that its worker ended as canceled keeps its own ForgetAt, and so does
// any record if forgetAt is zero.
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

// Lease is the right to run a record and to write it. It consists of the owner, of the
// count that grows with each claim, and of a stamp, because the count begins at 0 again if
// a record is removed and another is put under its name. No two leases are equal, unless
// they are of one run.
type Lease struct {
	// Queue is the record's queue.
	Queue string
	// Name is the record's name.
	Name string
	// Owner is the owner that claimed the record.
	Owner string
	// Count is the record's ModificationCount when it was claimed.
	Count int
	// Stamp is the record's Stamp when it was claimed; 0 in a store that needs none.
	Stamp int64
}

// LeaseOf returns the lease that a record shows.
func LeaseOf(r *Record) Lease {
	return Lease{Queue: r.Group, Name: r.Name, Owner: r.Status.Owner, Count: r.Status.ModificationCount, Stamp: r.Stamp}
}

// HasEndedUnder reports whether a record ended under a lease. A record that has ended may have lost
// its Stamp.
func HasEndedUnder(r *Record, l Lease) bool {
	left := LeaseOf(r)
	left.Stamp = l.Stamp
	return r.Status.Completed && left == l
}

// Completion ends the attempt that runs under a lease.
type Completion struct {
	// Lease is the lease under which the job ran.
	Lease Lease
	// Record replaces the stored record, except for its priority, tags, scopes, edges and
	// unique key. A record that awaits a retry keeps the scopes that it took when it was
	// put and gives up the others. Any other record gives up all its scopes.
	Record *Record
	// Next is the next attempt, which replaces the record in the same step as Retry does;
	// nil if there is none. Record must be one that has failed then, and not one that
	// awaits a retry. It is for drivers with Features.NextAttempts.
	Next *Record
}

// HandBack gives a lease back without ending the attempt.
type HandBack struct {
	Lease Lease
	// NotBefore is when the record may be claimed again; zero for at once.
	NotBefore time.Time
	// Since is when the wait until NotBefore began, by the same clock, so that a fast
	// clock does not make the wait longer (see Driver.RecoverStale). If it is zero,
	// NotBefore is never moved.
	Since time.Time
	// Park sets the record aside: it is not claimed and does not expire. Complete ends
	// it, under the lease that it shows, and the action Unpark lets it continue.
	Park bool
	// Reason is why the record is handed back, if it has to wait. Its status shows the
	// reason until the wait ends.
	Reason string
	// Started is true if the job has begun to run. It has met its dispatch-by time then, which
	// the record loses, so that it does not expire.
	Started bool
}
