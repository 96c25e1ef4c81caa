package driver

import "time"

// Work is what the queues of a store have to do at a time.
type Work struct {
	// Queues are the queues that have something to do, by name.
	Queues []QueueWork
	// Next is when there may be more because a time comes, as Claimed.Next is. A time that
	// has come asks for another call at once.
	Next time.Time
}

// QueueWork is what a queue has to do. There may be less of it: what is said may have been
// done since, or wait for another process that knows its kind.
type QueueWork struct {
	Queue string
	// Ready is true if a Claim may give a record that is to run.
	Ready bool
	// Expired is true if a Claim may give a record that has expired.
	Expired bool
	// Retrying is true if a record awaits its retry.
	Retrying bool
}
