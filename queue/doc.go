// Package queue provides in-memory and driver-backed implementations of amboy.Queue.
//
// A local queue ([NewLocalLimitedSize] and the constructors beside it) holds jobs by
// reference, in this process. A driver-backed queue ([NewDriverQueue]) holds jobs in
// their stored form, in a store that a driver of package queue/driver provides.
// [NewLocalLimitedSizeSerializable] returns a driver-backed queue whose store is memory.
// Both kinds honor priorities, schedules, deadlines, scopes, dependencies and retries,
// and return the same results.
//
// A group ([NewLocalQueueGroup], [NewDriverGroup]) provides one queue per name, and
// creates each queue when it is first used.
package queue

import (
	// A process that runs the jobs of a store must know the job that ends a batch, even
	// if other processes put the batches.
	_ "github.com/mongodb/amboy/internal/batchend"
)
