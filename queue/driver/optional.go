package driver

import (
	"context"
	"time"
)

// Examiner is implemented by a Driver that can describe the condition of its store.
type Examiner interface {
	// Examine describes the condition of the store. It only reads, and its cost does not grow
	// with the number of records. It stops with an error when ctx ends.
	Examine(ctx context.Context) (Condition, error)
}

// IdleProber is implemented by a Driver that finds out that a queue is idle for less than its
// Stats cost.
type IdleProber interface {
	// IsIdle reports whether no record of a queue is pending, running or retrying, as
	// QueueStats.IsIdle does.
	IsIdle(ctx context.Context, queue string) (bool, error)
}

// Surveyor is implemented by a Driver that answers, with one query, all that a process without
// jobs asks regularly.
type Surveyor interface {
	// Survey is Work, and returns how long RecoverStale will have nothing to do: 0 if it may have
	// something to do now, or only has to see a lease, to measure how long it is not renewed;
	// otherwise the time until the first lease ends that is not renewed meanwhile, which may be
	// left out if it is a lock of the legacy library; and within if none ends before.
	Survey(ctx context.Context, now time.Time, within time.Duration) (work Work, staleIn time.Duration, err error)
}

// EndFollower is implemented by a Driver with Features.TransactionalEnds that does what follows from an
// end in a caller's transaction after the commit, instead of in the transaction: it frees scopes, lets
// dependents run, and notifies subscribers.
type EndFollower interface {
	// FollowEnd does what follows from the end of a lease that Complete wrote in a caller's
	// transaction. It is called when that is known to be committed, and does nothing if it was done
	// already. Without the call, as when the process dies, the driver does it later, in whichever process:
	// after some seconds, or up to a minute if all processes are busy.
	FollowEnd(ctx context.Context, lease Lease)
}

// QueueLeaver is implemented by a Driver that remembers something of the queues that this process
// claims from.
type QueueLeaver interface {
	// LeaveQueue is called when a queue was closed: no claim asks for it, and none will unless it is
	// opened again. It must return at once, and must not call subscribers.
	LeaveQueue(queue string)
}

// UnfinishedSummer is implemented by a Driver whose SumQueues counts records that have ended.
type UnfinishedSummer interface {
	// SumUnfinished is SumQueues without the number of records that have ended for good:
	// Stats.Completed and Stats.Total of the sums and of the queues are not valid, and queues
	// without other records may be left out.
	SumUnfinished(ctx context.Context, busiest int) (QueueTotals, error)
}

// Condition is the condition of a store.
type Condition struct {
	// SharesClock is true if all processes on the store use the clock of one machine.
	// Otherwise ClockAhead is by how much the clock of the store is ahead of the clock of
	// this process, exact to half a round trip, which is not counted.
	SharesClock bool
	ClockAhead  time.Duration
	// OwnersAhead is, by the owners of running records, by how much their clocks are ahead of
	// the clock of the store. Owners are left out if the store does not know that.
	OwnersAhead map[string]time.Duration
	// Expired are running records whose leases ran out so long ago that a live process would
	// have recovered them: at most MaxExpired, in the order of the ends of their leases.
	Expired []ExpiredLease
	// Bounded is true if the store removes finished records by itself, for instance beyond a
	// number.
	Bounded bool
	// Defects are what is wrong with the store itself.
	Defects []Defect
}

// ClockAhead returns by how much a clock is certain to be ahead of the clock of this process; less
// than 0 if it is behind. It was read after a question and before its answer, at times of this
// process.
func ClockAhead(read, asked, answered time.Time) time.Duration {
	switch {
	case read.After(answered):
		return read.Sub(answered)
	case read.Before(asked):
		return read.Sub(asked)
	default:
		return 0
	}
}

// MaxExpired is the largest number of leases in a Condition.
const MaxExpired = 100

// ExpiredLease is the lease of a running record that ran out.
type ExpiredLease struct {
	Queue, JobID, Owner string
	// Ended is when it ran out, by the clock of the store; zero if that is unknown.
	Ended time.Time
}

// ExpiredGrace returns how long a lease of a length may have run out before it counts as
// expired in a Condition: a driver that was just opened may have to observe the lease for all
// of its length, and recovers leases every quarter of it.
func ExpiredGrace(length time.Duration) time.Duration { return length + length/2 + time.Minute }

// DefectKind is what is wrong with a store.
type DefectKind string

// The kinds of defects.
const (
	// MissingIndex is an index that the driver needs and that does not exist, or is not valid.
	MissingIndex DefectKind = "missing index"
	// LargeLog is a write-ahead log that grows because something keeps it from being reused.
	LargeLog DefectKind = "large log"
	// Bloat is space that is neither used nor given back.
	Bloat DefectKind = "bloat"
	// OldTransaction is a transaction that keeps the store from cleaning up.
	OldTransaction DefectKind = "old transaction"
)

// Defect is something that is wrong with a store.
type Defect struct {
	Kind DefectKind
	// Minor is true if jobs run as well without what is missing, and only operators wait longer.
	Minor bool
	// Name is the name of the index, the table or the file.
	Name string
	// Detail describes the defect in a sentence, with its numbers.
	Detail string
	// Remedy is what to do, in a sentence.
	Remedy string
	// Command is a command for a client of the store that does it; empty if there is none.
	Command string
}

// SchemaChecker is implemented by a Driver that stops writing when another process changes the
// schema of the store.
type SchemaChecker interface {
	// CheckSchema returns an error unless the schema is still that with which the driver was
	// opened. It reads a number of the store.
	CheckSchema(ctx context.Context) error
}
