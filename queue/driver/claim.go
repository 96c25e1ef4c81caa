package driver

import "time"

// ClaimRequest asks for records to run.
type ClaimRequest struct {
	// Owner is the owner of the new leases.
	Owner string
	// Queues are the queues to claim records of, each once. Their order decides which
	// queue is served first.
	Queues []Demand
	// Limit is the maximum number of records in all. Expired records are returned in
	// addition, so that they can be ended without a free worker.
	Limit int
	// Now is the time of the claim by the caller's wall clock. It decides what is due and what has expired, and
	// nothing about leases. It must not be compared with the driver's clock. A record may still start at its
	// dispatch-by time, and expires after it.
	Now time.Time
	// LeaseTime is the length of the leases, from when the store grants them, unless
	// Extend renews them.
	LeaseTime time.Duration
	// Except lists the kinds of records that the owner can't run, usually none. Such
	// records are left to other owners: they are not returned, do not count towards a
	// limit, and keep their place in the order. Expired records are returned whatever
	// their kind, as any owner can end them. The cost of a claim does not grow with the
	// number of records that it leaves: an index of ready records by queue, Kind.Key, priority
	// and arrival achieves that. An empty list costs nothing.
	Except []Kind
	// HeldByProcess is true if the owner is a part of this process, so that the leases are over when
	// it has died, and not a worker elsewhere. A driver that can tell recovers them then (see
	// RecoverStale).
	HeldByProcess bool
}

// Demand asks for records of one queue.
type Demand struct {
	Queue string
	// Limit is the maximum number of its records. It must not be negative; if it is 0,
	// only expired records are returned.
	Limit int
}

// Claimed is the result of Claim.
type Claimed struct {
	// Records are the claimed records. The records of a queue are in the order in which
	// they should run: by priority, then by arrival. Each is the caller's own copy. A
	// record whose dispatch-by time has passed must not be run, but ended as expired: it
	// may still wait for edges or scopes, and has taken no scopes. A record whose
	// Dependency names Failed edges waited for jobs that did not succeed.
	Records []*Record
	// Next is the next time after Now at which more records may become claimable: when a
	// record that waits for no edge becomes due, or when a record that has not started
	// expires. It is zero if there is no such time. It may concern records of queues that
	// were not asked for. A time that is not after Now asks for another claim: at once, or
	// after a millisecond if there are no Records. It may leave out a record that another
	// process has written until that process's notification has arrived.
	Next time.Time
	// Waits are the requested queues of which the rate let fewer records start than may run,
	// each once. Nothing else makes the engine claim from such a queue again.
	Waits []RateWait
}

// RateWait is how long a queue waits because of its rate.
type RateWait struct {
	Queue string
	// For is the time from the claim until the next one may get a record. It is positive.
	For time.Duration
}
