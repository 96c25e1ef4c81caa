// Package pinlater serves the Thrift interface of PinLater, so that clients generated from
// pinlater.thrift work with the queues of a group.
//
// A [Server] answers all 12 calls over TCP, framed and in the binary protocol. Its jobs are
// jobs for outside workers (see package outside) of one type. They have the retries, the
// retention and the place in the dashboard that other jobs have, and a worker that leases
// jobs over HTTP can run them too.
//
//	PinLater       here
//	PENDING        scheduled, pending, blocked, parked or retrying
//	IN_PROGRESS    running, under a lease whose owner ends in the claim
//	SUCCEEDED      succeeded
//	FAILED         failed, canceled or expired
//
// # Acknowledgements
//
// The acknowledgements of PinLater name a job and carry no token, so they can't be fenced: a
// worker whose claim has timed out, and who acknowledges late, ends the run of the worker
// that has the job by then. Clients rely on it. Workers that need fencing use package outside
// or its HTTP interface.
//
// # Security
//
// The protocol has neither a login nor encryption. A Server refuses to listen on other than
// loopback addresses and Unix sockets unless Options.AllowRemote is set. It reaches only jobs
// of its own type, in queues that were made with createQueue, whose names begin with
// Options.QueuePrefix.
package pinlater
