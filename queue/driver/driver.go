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
// Name), its Status.Owner and Status.ModificationCount are its lease.
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
	// Now is the time of the claim.
	Now time.Time
}

// Claimed is what Claim gives.
type Claimed struct {
	// Records are claimed, in the order in which they should run. Each is the
	// caller's own copy. A record whose dispatch-by time has passed must not be
	// run, but ended as expired. One whose Dependency names Failed edges was
	// waiting for jobs that did not succeed.
	Records []*Record
	// Next is when there may be more because a time comes; zero where there is
	// no such time.
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
	// Park sets the record aside, until a person releases it.
	Park bool
	// Reason says why, where the record is to wait.
	Reason string
}

// Notifier is implemented by drivers that tell when there may be something new
// to claim, or a job ended.
type Notifier interface {
	// Subscribe arranges for notify to be called, until cancel is. notify must
	// not block.
	Subscribe(notify func()) (cancel func())
}

// RecordName is the ID under which an attempt of a job is stored.
func RecordName(id string, retry amboy.JobRetryInfo) string {
	if !retry.Retryable {
		return id
	}
	return fmt.Sprintf("attempt-%d.%s", retry.CurrentAttempt, id)
}

// Driver stores the records of one queue. All calls are safe for concurrent
// use, and end with an error when their context does; a call that fails has
// changed nothing, or else says so. The calls that take several items give an
// error for each, in their order, or one for all of them where the store can't
// be reached.
type Driver interface {
	// Insert adds records. The error of one is a duplicate job
	// (amboy.IsDuplicateJobError) where the job's ID is taken, a duplicate
	// scope where an enqueue scope is held, an *amboy.InvalidJobError where an
	// edge names no job, and an *amboy.DependencyCycleError. Records that
	// depend on each other may stand in any order.
	Insert(ctx context.Context, records []*Record) ([]error, error)

	// Claim takes leases on records that may run: due, not held by anybody,
	// with all dependencies ended and all scopes free, which it takes.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Extend renews leases. It touches nothing but the time of the lease. It
	// returns the leases that are lost.
	Extend(ctx context.Context, leases []Lease, now time.Time) (lost []Lease, err error)

	// Complete ends attempts. The error of one wraps ErrLeaseLost where it was
	// not written for that reason.
	Complete(ctx context.Context, completions []Completion) ([]error, error)

	// Release hands leases back. The error of one wraps ErrLeaseLost.
	Release(ctx context.Context, handBacks []HandBack) ([]error, error)

	// Retry replaces a record that awaits its retry by its next attempt, in one
	// atomic step. The scopes and the dependents of the one pass to the other.
	// The error wraps ErrLeaseLost where the record does not await a retry any
	// more, and is a duplicate scope where one that is new is held.
	Retry(ctx context.Context, ended, next *Record) error

	// EndRetry ends a record that awaits its retry for good. The error wraps
	// ErrLeaseLost where it does not any more.
	EndRetry(ctx context.Context, ended *Record) error

	// Save replaces the content of a record, and nothing that the state of the
	// job follows from. The error is a job not found
	// (amboy.IsJobNotFoundError) where there is none.
	Save(ctx context.Context, r *Record) error

	// Get returns the latest attempt of a job. The error is a job not found
	// where there is none.
	Get(ctx context.Context, id string) (*Record, error)

	// Attempts returns the attempts of a retryable job, oldest first; none
	// where there is no such job.
	Attempts(ctx context.Context, id string) ([]*Record, error)

	// List returns the records in one of the states, all where none is given,
	// in the order in which they were added. Their status tells what they wait
	// for, so that amboy.StateOf gives their state.
	List(ctx context.Context, states ...amboy.JobState) ([]*Record, error)

	// Stats counts the records.
	Stats(ctx context.Context) (amboy.QueueStats, error)

	// RecoverStale hands back every lease that was last renewed before a time.
	// It returns how many.
	RecoverStale(ctx context.Context, before time.Time) (int, error)

	// Close frees what the driver holds. What is stored stays.
	Close(ctx context.Context) error
}
