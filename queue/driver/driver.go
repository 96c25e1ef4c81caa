// Package driver is the contract between a driver-backed queue and the storage
// under it.
//
// A driver stores records and moves them through the states of a job. Each
// write of a running job names the lease under which it is made, and is refused
// where the lease is not the record's any more. A driver knows no Go job type.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Record is a stored job. Its Name is the ID under which it is stored (see
// RecordName), its Status.Owner and Status.ModificationCount are its lease, and
// its Scopes are those that it holds. A record that is given to a driver, or by
// one, stays the caller's: its fields may be set, but what its slices and
// pointers refer to is shared, and must not be changed.
type Record = registry.JobInterchange

// ErrLeaseLost is returned for a write under a lease that is not the record's
// any more: the job has ended, or another owner claimed it.
var ErrLeaseLost = amboy.ErrLeaseLost

// ErrClosed is returned by the calls on a driver that was closed.
var ErrClosed = errors.New("driver is closed")

// Lease is the right to run a record, and to write it. It names the owner, and
// the count that grows with each claim.
type Lease struct {
	// Name is the record's.
	Name string
	// Owner is the queue that claimed it.
	Owner string
	// Count is the record's ModificationCount when it was claimed.
	Count int
}

// LeaseOf is the lease that a record shows.
func LeaseOf(r *Record) Lease {
	return Lease{Name: r.Name, Owner: r.Status.Owner, Count: r.Status.ModificationCount}
}

// ClaimRequest asks for records to run.
type ClaimRequest struct {
	// Owner takes the leases.
	Owner string
	// Limit is the number of records at most. Records that have expired are
	// given beyond it, so that they can be ended without a free worker.
	Limit int
	// Now is the time of the claim, which decides what is due and what has
	// expired. A record may still start at its dispatch-by time, and expires
	// after it.
	Now time.Time
}

// Claimed is what Claim gives.
type Claimed struct {
	// Records are claimed, in the order in which they should run: by priority,
	// then by arrival. Each is the caller's own copy. A record whose dispatch-by
	// time has passed must not be run, but ended as expired: it may be waiting
	// for edges or scopes, and has taken none. One whose Dependency names Failed
	// edges was waiting for jobs that did not succeed.
	Records []*Record
	// Next is when there may be more because a time comes: the next after Now
	// at which a record that waits for no edge is due, or any that has not
	// started has expired. It is zero where there is no such time.
	Next time.Time
}

// Completion ends the attempt that runs under a lease.
type Completion struct {
	// Lease is the one under which the job ran.
	Lease Lease
	// Record replaces what is stored. A record that awaits a retry keeps the
	// scopes that were taken when it was put, and gives the others up; any
	// other gives up all.
	Record *Record
}

// HandBack gives a lease back without ending the attempt.
type HandBack struct {
	Lease Lease
	// NotBefore is when the record may be claimed again; zero for at once.
	NotBefore time.Time
	// Park sets the record aside: it is not claimed, and does not expire.
	// Complete, under the lease that it shows, ends it.
	Park bool
	// Reason says why, where the record is to wait. Its status shows it until
	// then.
	Reason string
}

// Notifier is implemented by drivers that tell when there may be something new
// to claim, or a job ended.
type Notifier interface {
	// Subscribe arranges for notify to be called after each such change, by
	// whomever of this driver's callers, until cancel is called. One call may
	// stand for several changes, and there may be calls without one. notify must
	// not block. cancel may be called again, and does nothing then.
	Subscribe(notify func()) (cancel func())
}

// RecordName is the ID under which an attempt of a job is stored.
func RecordName(id string, retry amboy.JobRetryInfo) string {
	if !retry.Retryable {
		return id
	}
	return fmt.Sprintf("attempt-%d.%s", retry.CurrentAttempt, id)
}

// StateOf is the state of a record, as amboy.StateOf derives it. Of a record that
// has not ended, its status must tell what it waits for, as List and Get have it.
func StateOf(r *Record, now time.Time) amboy.JobState {
	return amboy.StateOf(amboy.JobInfo{Status: r.Status, Time: r.TimeInfo, Retry: r.RetryInfo}, now)
}

// CopyContent copies what Save replaces from one record to another: the body with
// its type and version, the errors and attempt errors, and of the retry info
// MaxAttempts, WaitUntil and DispatchBy.
func CopyContent(to, from *Record) {
	to.Job, to.Type, to.Version = from.Job, from.Type, from.Version
	to.Status.Errors, to.Status.ErrorCount = from.Status.Errors, from.Status.ErrorCount
	to.Status.Attempts, to.Status.DroppedErrors = from.Status.Attempts, from.Status.DroppedErrors
	to.RetryInfo.MaxAttempts = from.RetryInfo.MaxAttempts
	to.RetryInfo.WaitUntil, to.RetryInfo.DispatchBy = from.RetryInfo.WaitUntil, from.RetryInfo.DispatchBy
}

// Driver stores the records of one queue. All calls are safe for concurrent
// use, and end with an error when their context does; a call that fails has
// changed nothing, or else says so. The calls that take several items give an
// error for each, in their order, or one for all of them where the store can't
// be reached; an item without an error is done, whatever became of the others.
type Driver interface {
	// Insert adds records, in their order. The error of one is a duplicate job
	// (amboy.IsDuplicateJobError) where the job's ID is taken, by whatever
	// attempt and whether it has ended or not, or the record's name is; a
	// duplicate scope where another job holds an enqueue scope, even if only
	// while it runs; an *amboy.InvalidJobError where an edge names no job; and an
	// *amboy.DependencyCycleError. Records that depend on each other may stand in
	// any order; then each comes after those that it depends on.
	Insert(ctx context.Context, records []*Record) ([]error, error)

	// Claim takes leases on records that may run: due, not held by anybody,
	// with all dependencies ended and all scopes free, which it takes. It sets
	// owner, start and lease time, and adds one to the count. A record that
	// waits for a scope keeps no other waiting.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Extend renews leases. It touches nothing but the time of the lease. It
	// returns the leases that are lost, among them those of records that do not
	// run.
	Extend(ctx context.Context, leases []Lease, now time.Time) (lost []Lease, err error)

	// Complete ends attempts. A record that does not run is ended too, under the
	// lease that it shows (see LeaseOf): it never will run. The error of one
	// wraps ErrLeaseLost where the lease is not the record's, or the record has
	// ended already. Jobs that depend on one that ended in another state than
	// amboy.StateSucceeded find it among their Failed edges.
	Complete(ctx context.Context, completions []Completion) ([]error, error)

	// Release hands leases back. The record keeps its count and its place in the
	// order, loses its owner and its start, and gives up the scopes that it did
	// not take when it was put. The error of one wraps ErrLeaseLost.
	Release(ctx context.Context, handBacks []HandBack) ([]error, error)

	// Retry replaces a record that awaits its retry by its next attempt, in one
	// atomic step. The scopes and the dependents of the one pass to the other,
	// but for scopes that are no enqueue scopes of next, which are free. next
	// comes after the records that are there, does not wait for the edges again,
	// and has no Failed ones. The error wraps ErrLeaseLost where the record does
	// not await a retry any more, is a duplicate job where the name of next is
	// taken, and a duplicate scope where one that is new is held.
	Retry(ctx context.Context, ended, next *Record) error

	// EndRetry ends a record that awaits its retry for good. The error wraps
	// ErrLeaseLost where it does not any more.
	EndRetry(ctx context.Context, ended *Record) error

	// Save replaces the content of a record, as CopyContent does. It touches
	// nothing else: neither lease nor progress, times, scopes, priority or
	// edges. The error is a job not found (amboy.IsJobNotFoundError) where there
	// is none.
	Save(ctx context.Context, r *Record) error

	// Get returns the latest attempt of a job, with the status that List shows.
	// The error is a job not found where there is none.
	Get(ctx context.Context, id string) (*Record, error)

	// Attempts returns the attempts of a retryable job, oldest first; none where
	// there is no such job, or it is not retryable.
	Attempts(ctx context.Context, id string) ([]*Record, error)

	// List returns the records in one of the states, all where none is given,
	// in the order in which they were added. Their status tells what they wait
	// for, so that amboy.StateOf gives their state: a record waits for its edges
	// (blocked), then for its time (scheduled, or blocked where it was handed
	// back), then for its scopes (blocked).
	List(ctx context.Context, states ...amboy.JobState) ([]*Record, error)

	// Stats counts the records: what List lists, and what has been forgotten.
	// Blocked are the pending ones that show amboy.HoldBlocked.
	Stats(ctx context.Context) (amboy.QueueStats, error)

	// RecoverStale hands back, as Release does, every lease that was last taken
	// or renewed before a time. It returns how many.
	RecoverStale(ctx context.Context, before time.Time) (int, error)

	// Close frees what the driver holds. What is stored stays. Changes fail with
	// ErrClosed from then on; reads may do so too. Closing it again does nothing.
	Close(ctx context.Context) error
}
