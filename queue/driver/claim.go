package driver

import "time"

// ClaimRequest asks for records to run.
type ClaimRequest struct {
	// Owner takes the leases.
	Owner string
	// Queues are those of which records are wanted, each once. Their order
	// decides who is served first.
	Queues []Demand
	// Limit is the number of records in all, at most. Records that have expired
	// are given beyond it, so that they can be ended without a free worker.
	Limit int
	// Now is the time of the claim by the caller's wall clock, which decides what
	// is due and what has expired, and nothing about leases. A record may still
	// start at its dispatch-by time, and expires after it.
	Now time.Time
	// LeaseTime is how long the leases last from when the store gives them, unless
	// Extend renews them.
	LeaseTime time.Duration
	// Except are the kinds of records that the owner can't run: most often none. Such
	// records are left to other owners: they are not given, unless they have expired,
	// they take no part of a limit, and they keep their place among the others. Those
	// that have expired are given, as they can be ended by any owner. What a claim
	// costs does not grow with the number of records that it leaves.
	Except []Kind
}

// Demand asks for records of one queue.
type Demand struct {
	Queue string
	// Limit is the number of its records, at most. It is not negative; where it
	// is 0 only records that have expired are given.
	Limit int
}

// Claimed is what Claim gives.
type Claimed struct {
	// Records are claimed. Those of a queue are in the order in which they
	// should run: by priority, then by arrival. Each is the caller's own copy. A
	// record whose dispatch-by time has passed must not be run, but ended as
	// expired: it may be waiting for edges or scopes, and has taken none. One
	// whose Dependency names Failed edges was waiting for jobs that did not
	// succeed.
	Records []*Record
	// Next is when there may be more because a time comes: the next after Now
	// at which a record that waits for no edge is due, or any that has not
	// started has expired. It is zero where there is no such time. Records of
	// queues that were not asked for may be meant too.
	Next time.Time
}
