// Package driver is the contract between a driver-backed queue and the storage
// under it.
//
// # Clocks
//
// The wall clock of a process may be wrong, and may be set at any time. So no call
// says when a lease began or ends, only how long it lasts: the driver measures that.
// A lease ends by the clock of the store, if that has one which all processes go by,
// or else after the driver has itself seen it unrenewed for its whole length, by a
// monotonic clock. What users set by the wall clock (wait-until and dispatch-by
// times, retention) is compared with the wall clock of the caller, which calls pass
// as now. A wait that was counted from a moment, as a backoff is, comes with that
// moment, so that a wait that a clock made too long which was ahead is recognized:
// see RecoverStale.
//
// A driver stores the records of any number of queues, and moves them through the
// states of a job. Each write of a running job names the lease under which it is
// made, and is refused where the lease is not the record's any more. A driver
// knows no Go job type.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy"
)

// ErrLeaseLost is returned for a write under a lease that is not the record's
// any more: the job has ended, or another owner claimed it.
var ErrLeaseLost = amboy.ErrLeaseLost

// ErrClosed is returned by the calls on a driver that was closed.
var ErrClosed = errors.New("driver is closed")

// ErrBadCursor is wrapped by the error for a cursor that a driver did not make.
var ErrBadCursor = errors.New("the cursor is none that this store gave")

// ErrOutcomeUnknown is wrapped, beside the reason, by the error of a change that
// was under way when its context ended, or when the store could not be reached any
// more: it may have been made or not.
var ErrOutcomeUnknown = errors.New("the call ended while the change was being written; it may be stored or not")

// ErrFull is the error of a record for which there is no room, if the Insert must not
// wait for that.
var ErrFull = errors.New("there is no room in the queue")

type noWaitKey struct{}

// WithoutWaiting returns the context of an Insert that must not wait for room. The
// error of a record for which there is none wraps ErrFull.
func WithoutWaiting(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWaitKey{}, true)
}

// MayWait reports whether an Insert may wait for room.
func MayWait(ctx context.Context) bool { return ctx.Value(noWaitKey{}) == nil }

// Features say what a driver can do that not every driver can.
type Features struct {
	// Notifications: Subscribe tells of changes, also of those that other
	// processes make, so that nobody needs to poll.
	Notifications bool
	// Transactions: an Insert whose context carries a transaction of the store
	// is part of it. How a context comes to carry one is the driver's own.
	Transactions bool
	// Durable: what is stored outlives the driver and its process.
	Durable bool
}

// Driver is a store of queues. A queue is there as soon as it is named. All calls
// are safe for concurrent use, and end with an error when their context does; a
// call that fails has changed nothing, or else says so. The calls that take
// several items give an error for each, in their order, or one for all of them
// where the store can't be reached; an item without an error is done, whatever
// became of the others.
//
// Job IDs, record names, scopes, edges and unique keys are those of a queue:
// queues share none of them.
type Driver interface {
	// Admin is what people look after jobs with.
	Admin

	// Features say what the driver can do. They never change.
	Features() Features

	// Insert adds records, in their order. The error of one is a duplicate job
	// (amboy.IsDuplicateJobError) where the job's ID is taken, by whatever
	// attempt and whether it has ended or not, or the record's name is, or its
	// unique key; a duplicate scope where another job holds an enqueue scope,
	// even if only while it runs; an *amboy.InvalidJobError where an edge names
	// no job; an *amboy.DependencyCycleError; and wraps amboy.ErrQueueDraining
	// where the queue is drained. Records that depend on each other may stand in
	// any order; then each comes after those that it depends on.
	//
	// A record whose InsertedState is not amboy.StatePending is stored in that
	// state, with its status: it waits for no edges and needs no room. One that
	// runs holds all of its scopes, under the lease that it shows, which lasts
	// for LeaseTime; one that awaits its retry holds its enqueue scopes; one that
	// has ended holds none.
	Insert(ctx context.Context, records []*Record) ([]error, error)

	// Claim takes leases on records that may run: due, not held by anybody,
	// with all dependencies ended and all scopes free, which it takes. It sets
	// owner, start and modification time, and adds one to the count. A lease
	// lasts for req.LeaseTime, whatever req.Now is. A record that
	// waits for a scope keeps no other waiting. It takes one record of each
	// queue in turn, in the order of the request, until the limits are reached;
	// and none of a queue that is paused, or of which as many run as may, and
	// none of a kind that the request leaves out.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Extend renews leases, so that they last for leaseTime from when the store
	// does so. It touches nothing but the times of the lease. It returns the
	// leases that are lost, among them those of records that do not run. A lease
	// that has ended is renewed all the same, unless it was recovered.
	Extend(ctx context.Context, leases []Lease, leaseTime time.Duration) (lost []Lease, err error)

	// Complete ends attempts. A record that does not run is ended too, under the
	// lease that it shows (see LeaseOf): it never will run. One for which Cancel
	// was asked while it ran, and that has not succeeded or expired, ends as
	// canceled (see EndCanceled). The error of one wraps
	// ErrLeaseLost where the lease is not the record's, or the record has ended
	// already. Jobs that depend on one that ended in another state than
	// amboy.StateSucceeded find it among their Failed edges. One that is too large for
	// the store ends as failed instead (see ShortEnd), and its error wraps ErrTooLarge.
	Complete(ctx context.Context, completions []Completion) ([]error, error)

	// Release hands leases back. The record keeps its count and its place in the
	// order, loses its owner and its start, and gives up the scopes that it did
	// not take when it was put. One for which Cancel was asked ends instead, as
	// that action has it, whatever the hand-back says; it keeps its owner and
	// its start. The error of one wraps ErrLeaseLost.
	Release(ctx context.Context, handBacks []HandBack) ([]error, error)

	// Retry replaces a record that awaits its retry by its next attempt, in one
	// atomic step. The scopes, the dependents and the unique key of the one pass
	// to the other, but for scopes that are no enqueue scopes of next, which are
	// free. next comes after the records that are there, does not wait for the
	// edges again, and has no Failed ones. Its wait-until time, if it has one, was
	// counted from its Created time (see RecoverStale). The error wraps ErrLeaseLost
	// where the record does not await a retry any more, is a duplicate job where the
	// name of next is taken, and a duplicate scope where one that is new is held.
	Retry(ctx context.Context, ended, next *Record) error

	// EndRetry ends a record that awaits its retry for good. The error wraps
	// ErrLeaseLost where it does not any more, and ErrTooLarge as that of Complete
	// does.
	EndRetry(ctx context.Context, ended *Record) error

	// Save replaces the content of a record, as CopyContent does, and its lock as
	// CheckSave says. It touches nothing else: neither progress, times, scopes,
	// priority nor edges. The error is a job not found
	// (amboy.IsJobNotFoundError) if there is none, and wraps ErrLeaseLost if r is
	// stale.
	Save(ctx context.Context, r *Record) error

	// SetProgress stores how far a running job has come, which Get and Find show
	// until the attempt is replaced. The error wraps ErrLeaseLost.
	SetProgress(ctx context.Context, lease Lease, progress Progress) error

	// CancelRequests returns the leases of an owner's running records that
	// Cancel was asked for. They stay until the record ends, as it also does when
	// its lease is handed back or recovered.
	CancelRequests(ctx context.Context, owner string) ([]Lease, error)

	// Unfinished names, sorted, the queues that have records which have not ended
	// for good; one that awaits its retry has not. It is cheap, however many such
	// records there are.
	Unfinished(ctx context.Context) ([]string, error)

	// RecoverStale hands back, as Release does, every lease that has ended, but
	// for those to keep: their runs have not returned. It returns how many, with
	// those of records that ended because Cancel was asked for them. A driver whose
	// store has no clock of its own hands a lease back when an earlier RecoverStale
	// has seen it, at least the length of the lease ago, and it was not renewed
	// since. All the time before the first call, when the process did not run, does
	// not count, unless the driver can prove that the holder is dead. A lease does
	// not last longer because a clock was set back, neither that of the store nor of
	// a process.
	//
	// It also shortens waits that a clock made too long which was ahead: that of a
	// record that was handed back until a time, if HandBack.Since has not come, and
	// that of a record put by Retry, if its Created time has not come, by the clock
	// of the store, or else the driver's. Such a wait begins now, and is as long as
	// it was meant to be; the times of a record put by Retry are moved together. A
	// wait-until time that came with Insert or Reschedule never moves. A driver may
	// leave differences of up to five seconds as they are.
	RecoverStale(ctx context.Context, keep ...Lease) (int, error)

	// Forget removes records that ended for good and whose Record.ForgetAt has
	// come, and those that the driver has no room for; the first to be removed
	// are those whose time is first. It removes up to limit of them, and returns
	// how many. A record without a time stays.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)

	// TakeDuty gives a duty to an owner, or renews it, for duty.For from now. It
	// returns false while another owner has it. A duty that would last for longer
	// than duty.For from now was taken by a clock that was ahead, and is free. A
	// duty saves work and is no lease: where the clocks of processes differ, each of
	// them may have it.
	TakeDuty(ctx context.Context, duty Duty, now time.Time) (bool, error)

	// Mark raises a mark of a queue to a time, and returns what it was before:
	// the zero time where there was none. It never lowers one: an earlier time
	// changes nothing, and the zero time only reads. A mark stays for good, and is
	// no reason for Queues to list the queue. Marks are kept to the millisecond;
	// what is beyond is cut off.
	Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error)

	// Close frees what the driver holds. What is stored stays. Changes fail with
	// ErrClosed from then on; reads may do so too. Closing it again does nothing.
	Close(ctx context.Context) error
}
