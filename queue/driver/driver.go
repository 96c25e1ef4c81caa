// Package driver defines the contract between a driver-backed queue and the storage under
// it.
//
// # Clocks
//
// The wall clock of a process may be wrong, and may be set at any time. So no call passes
// the time at which a lease began or ends, only its length, which the driver measures. A
// lease ends by the clock of the store, if the store has one that all processes use.
// Otherwise it ends after the driver itself has seen it unrenewed for its whole length,
// by a monotonic clock. Times that users set by the wall clock (wait-until and
// dispatch-by times, retention) are compared with the wall clock of the caller, which
// calls pass as now. A wait that was counted from a moment, such as a backoff, is stored
// with that moment, so that a wait made too long by a fast clock can be recognized: see
// RecoverStale.
//
// # Records
//
// A driver stores the records of any number of queues, and moves them through the states
// of a job. Each write of a running job names the lease under which it is made, and is
// refused if the record no longer has that lease. A driver knows no Go job type.
//
// # Leases
//
// No two runs have the same lease, even if the job was removed and another was put under its
// ID, whose count begins at 0 again: the writes of a worker that was suspended for all that time
// are refused. For this the store sets a number, the stamp, in the records that Claim, Get,
// Find and Attempts return, and compares it with that of a lease. PostgreSQL, MongoDB and the
// memory driver number their records anyway. SQLite may give a record the number of a removed
// one; its stamp is the start of the run, in nanoseconds. A store in which names never return,
// as River's tables, needs none: all of its stamps are 0. The count still begins at 0, so that
// one statement may claim, renew or end many jobs with the same count, and documents stay as
// the legacy library writes them.
//
// A job has an owner and a count, but no stamp. To end or save a copy of a job, the engine reads
// the record again, and uses its lease if owner and count are equal. The legacy library drops
// the stamp of a MongoDB document that it saves, which then has the lease of its owner and count.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// ErrLeaseLost is returned for a write under a lease that the record no longer has: the
// job has ended, or another owner claimed it.
var ErrLeaseLost = amboy.ErrLeaseLost

// ErrClosed is returned by the calls on a driver that was closed.
var ErrClosed = errors.New("driver is closed")

// ErrBadCursor is wrapped by the error for a cursor that the driver did not issue.
var ErrBadCursor = errors.New("cursor was not issued by this store")

// ErrOutcomeUnknown is wrapped, besides the reason, by the error of a change that was
// under way when its context ended or when the connection to the store was lost. The
// change may or may not have been made.
var ErrOutcomeUnknown = errors.New("the call ended while the change was being written; it may or may not be stored")

// ErrBlocked is wrapped by the error of a change that did not take place because an open transaction
// of another client is in the way. It can be repeated.
var ErrBlocked = errors.New("an open transaction of another client is in the way; nothing was changed")

// BlockedLeasesError is the error of an Extend that renewed all leases but some, because an open
// transaction of another client is in the way. They are not lost yet.
type BlockedLeasesError struct {
	Leases []Lease
}

func (e *BlockedLeasesError) Error() string {
	return fmt.Sprintf("renewing %d leases: %s", len(e.Leases), ErrBlocked)
}

func (e *BlockedLeasesError) Unwrap() error { return ErrBlocked }

// IsRepeatable reports whether a change of one record that failed with an error can be repeated: it
// is unknown whether it was made, or a transaction is in its way.
func IsRepeatable(err error) bool {
	return errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrBlocked)
}

// ErrUnsupported is wrapped by the error of a change that a store has no place for. management.ErrUnsupported
// is the same error.
var ErrUnsupported = errors.New("not supported here")

// ErrFull is the error of a record that the queue has no room for, if the Insert must not
// wait for room.
var ErrFull = errors.New("the queue is full")

type noWaitKey struct{}

// WithoutWaiting returns a context for an Insert that must not wait for room. The error
// of a record that does not fit wraps ErrFull.
func WithoutWaiting(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWaitKey{}, true)
}

// MayWait reports whether an Insert may wait for room.
func MayWait(ctx context.Context) bool { return ctx.Value(noWaitKey{}) == nil }

// Features are the optional capabilities of a driver.
type Features struct {
	// Notifications: Subscribe also reports the changes that other processes make, so
	// that callers do not have to poll.
	Notifications bool
	// Transactions: an Insert whose context carries a transaction of the store is part of
	// it. Each driver documents how a context carries one.
	Transactions bool
	// TransactionalEnds: a Complete whose context carries a transaction of the store is
	// part of it.
	TransactionalEnds bool
	// Durable: what is stored outlives the driver and its process.
	Durable bool
	// Prunes: Prune drops the names of unused queues. A store without Prunes either keeps
	// nothing of a queue without records and settings, or keeps its name for good.
	Prunes bool
	// NextAttempts: Complete takes a Completion whose Next is set.
	NextAttempts bool
	// Limits: scopes may be limited (see amboy.LimitScope). Without it, no record has one.
	Limits bool
	// SharedRetries: concurrent calls of Retry cost the store much less than as many calls
	// one after the other, so hundreds of them should be made at once.
	SharedRetries bool
	// CostlyClaims: a job that is claimed but not started loses something, such as an attempt if
	// its process dies. Without it, a Durable store may be asked for more jobs than workers wait
	// while jobs take less time than a claim. What no worker takes soon is released.
	CostlyClaims bool
}

// Driver stores queues. A queue exists as soon as it is named. All calls are safe for
// concurrent use, and return an error when their context ends. A call that fails has
// changed nothing, unless its error says otherwise. Calls that take several items return
// one error for each item, in their order, or a single error for all if the store can't
// be reached. An item without an error is done, even if others failed.
//
// Job IDs, record names, scopes, edges and unique keys belong to a queue. Queues share
// none of them.
type Driver interface {
	// Admin is the part that operators use.
	Admin

	// Features returns the driver's capabilities. They never change.
	Features() Features

	// Insert adds records, in their order. The error of a record
	//   - is a duplicate job (amboy.IsDuplicateJobError) if the job's ID is taken by any
	//     attempt, ended or not, or if the record's name or its unique key is taken;
	//   - is a duplicate scope if another job holds one of its enqueue scopes, even if only
	//     while it runs;
	//   - is an *amboy.InvalidJobError if an edge names no job;
	//   - is an *amboy.DependencyCycleError if its edges form a cycle;
	//   - wraps amboy.ErrQueueDraining if the queue is draining.
	//
	// Records that depend on each other may be passed in any order; each is then ordered
	// after the records that it depends on.
	//
	// A record whose InsertedState is not amboy.StatePending is stored in that state,
	// with its status. It waits for no edges and needs no room. A running record holds
	// all of its scopes, under the lease that it shows once it is stored, which lasts for
	// LeaseTime. A record that awaits its retry holds its enqueue scopes. A record that has
	// ended holds none.
	//
	// If ctx carries a transaction of another store (see WithTransaction) nothing is
	// inserted, and the error wraps ErrForeignTransaction.
	Insert(ctx context.Context, records []*Record) ([]error, error)

	// Claim takes leases on records that may run: records that are due, that no owner
	// holds, whose dependencies have all ended, and whose scopes are all free. It sets
	// owner, start and modification time, and adds one to the count. No other run has the
	// same lease (see Leases above), which lasts for req.LeaseTime, whatever req.Now is.
	//
	// Claim takes the scopes. A limited scope (see amboy.LimitScope) is free for a record
	// while fewer others hold one of its key than its limit says, and is never an enqueue
	// scope; its records with the same limit are claimed in their order, if other scopes do
	// not stop them. If several calls claim records with different limits for a key at the
	// same time, only the largest of these limits may be kept. A record that waits for a
	// scope does not delay other records, not even one that wants another scope that it
	// waits for.
	//
	// No claim reads records that have ended, are not due, or wait for a scope, so its cost
	// does not grow with their number. Claim takes one record of each queue in turn, in the
	// order of the request, until the limits are reached. It takes none of a paused queue,
	// none of a queue that runs as many records as it may, and none of a kind that the
	// request excludes.
	//
	// Of a queue with a rate it takes as many records as the rate has tokens for (see
	// amboy.Rate), which all drivers on the store share; if it is not known whether a claim
	// was made, its tokens may be lost. The rate is measured by the clock by which leases
	// end, or if the store has none, by one that all processes on the store share. When that
	// clock is set, at most one burst starts, and the queue waits for at most a second longer
	// than the rate says.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Work returns which queues have something to do at now, by the caller's wall clock. A
	// process with many queues does not have to ask each of them, and opens the queues that
	// it needs. Records that wait for a later time, for other jobs or for a scope, and parked
	// records are nothing to do. Work changes nothing. Its cost does not grow with the number
	// of other queues, nor of records.
	Work(ctx context.Context, now time.Time) (Work, error)

	// Extend renews leases, so that they last for leaseTime from when the store renews
	// them. It changes nothing but the times of the lease. It returns the leases that are
	// lost, including leases of records that do not run. A lease that has run out is
	// renewed too, unless it was recovered. Besides the lost leases, a *BlockedLeasesError names
	// leases that could not be renewed at this time.
	Extend(ctx context.Context, leases []Lease, leaseTime time.Duration) (lost []Lease, err error)

	// Complete ends attempts. It also ends a record that does not run, under the lease
	// that the record shows (see LeaseOf); the record never runs then. If Cancel was
	// requested while the record ran, and the record has not succeeded or expired, it
	// ends as canceled (see EndCanceled). The error of a completion wraps ErrLeaseLost if
	// the lease is not the record's, or if the record has ended already. Jobs that depend
	// on a record that ended in another state than amboy.StateSucceeded find it among
	// their Failed edges. A record that is too large for the store ends as failed instead
	// (see ShortEnd), and its error wraps ErrTooLarge. The queue repeats a completion whose
	// error is repeatable (see IsRepeatable).
	// A Completion with a Next is refused as Retry would refuse it, and then nothing has
	// changed. If its record ends as canceled, there is no next attempt.
	//
	// If ctx carries a transaction, a driver with TransactionalEnds writes in that: the
	// attempts end when it is committed, and until then the caller must neither renew their
	// leases nor end them otherwise. After any error the transaction must be rolled back.
	// One of another store is refused as by Insert. What follows from the ends may be done
	// soon after the commit (see EndFollower).
	Complete(ctx context.Context, completions []Completion) ([]error, error)

	// Release hands leases back. The record keeps its count and its place in the order.
	// It loses its owner and its start, and gives up the scopes that it did not take when
	// it was put. If Cancel was requested for it, the record ends as canceled instead,
	// whatever the hand-back says; it keeps its owner and its start. The error of a
	// hand-back wraps ErrLeaseLost if the lease is not the record's. Errors can be
	// repeatable, as those of Complete.
	Release(ctx context.Context, handBacks []HandBack) ([]error, error)

	// Retry replaces a record that awaits its retry by its next attempt, in one atomic
	// step. The next attempt takes over the scopes, the dependents and the unique key of
	// the ended one; scopes that are not enqueue scopes of next become free. next is
	// ordered after the records that exist, does not wait for its edges again, and has no
	// Failed edges. Its wait-until time, if it has one, counts from its Created time (see
	// RecoverStale). The error wraps ErrLeaseLost if the record no longer awaits a retry.
	// It is a duplicate job if the name of next is taken, and a duplicate scope if
	// another job holds a scope that is new in next.
	Retry(ctx context.Context, ended, next *Record) error

	// EndRetry ends for good a record that awaits its retry. The error wraps ErrLeaseLost
	// if the record no longer does, and ErrTooLarge as for Complete.
	EndRetry(ctx context.Context, ended *Record) error

	// Save replaces the content of a record, as CopyContent does, and its lock as
	// CheckSave describes. It changes nothing else: not progress, times, scopes, priority
	// or edges. The error is a job not found (amboy.IsJobNotFoundError) if the record
	// does not exist, and wraps ErrLeaseLost if r is stale.
	Save(ctx context.Context, r *Record) error

	// SetProgress stores the progress of a running job, which Get and Find show until the
	// attempt is replaced. The error wraps ErrLeaseLost if the lease is not the record's.
	SetProgress(ctx context.Context, lease Lease, progress Progress) error

	// CancelRequests returns the leases of an owner's running records for which Cancel
	// was requested. A request stays until the record ends; handing back or recovering
	// the lease also ends the record.
	CancelRequests(ctx context.Context, owner string) ([]Lease, error)

	// Unfinished returns the sorted names of the queues with records that have not ended
	// for good. A record that awaits its retry has not. The call is cheap, however many
	// such records exist.
	Unfinished(ctx context.Context) ([]string, error)

	// RecoverStale hands back, as Release does, every lease that has run out, except the
	// leases in keep, whose runs have not returned. It returns the number of leases,
	// including those of records that ended because Cancel was requested. If its store
	// has no clock, a driver hands a lease back when an earlier RecoverStale saw it at
	// least the length of the lease ago and it was not renewed since. Time before the
	// first call of this process does not count, unless the driver can prove that the
	// holder is dead. A lease does not last longer because a clock was set back, neither
	// the store's nor a process's.
	//
	// It also shortens waits that a fast clock made too long: the wait of a record that
	// was handed back until a time, if HandBack.Since is in the future, and the wait of a
	// record put by Retry, if its Created time is in the future, by the clock of the
	// store, or the driver's if the store has none. Such a wait begins now, and is as
	// long as it was meant to be; the times of a record put by Retry are moved together.
	// A wait-until time from Insert or Reschedule never moves. A driver may ignore
	// differences of up to five seconds.
	RecoverStale(ctx context.Context, keep ...Lease) (int, error)

	// Forget removes records that ended for good and whose Record.ForgetAt has come, and
	// records that the driver has no room for, earliest time first. It removes up to
	// limit records and returns their number. A record without a time stays.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)

	// Prune drops the names of queues without records, whose Control is the zero value and
	// which did not change since req.Unused, so that the store does not grow with the number
	// of names that were ever used. It returns their number. A name that is used again is
	// added again; the totals of its Stats then begin at 0. Marks and notes stay. Its cost
	// grows with the number of queues without records, and not with the number of others.
	// A driver without Prunes drops none. The error is not nil if req.Limit is less than 1.
	Prune(ctx context.Context, req PruneRequest) (int, error)

	// TakeDuty gives a duty to an owner, or renews it, for duty.For from now. It returns
	// false while another owner has the duty. A duty that would last for longer than
	// duty.For from now was taken by a fast clock, and counts as free. A duty saves work
	// and is not a lease: if the clocks of processes differ, several of them may have it.
	TakeDuty(ctx context.Context, duty Duty, now time.Time) (bool, error)

	// Mark raises a mark of a queue to a time, and returns its previous value, or the
	// zero time if there was none. It never lowers a mark: an earlier time changes
	// nothing, and the zero time only reads. A mark stays for good. A mark alone does not
	// make Queues list its queue. Marks are truncated to the millisecond.
	Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error)

	// Close frees the resources of the driver. What is stored stays. Changes fail with
	// ErrClosed from then on; reads may fail too. Closing it again does nothing.
	Close(ctx context.Context) error
}
