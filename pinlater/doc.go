// Package pinlater serves the Thrift interface of PinLater, so that clients generated from
// pinlater.thrift work with the queues of a group. docs/reference/pinlater.md says how it differs
// from PinLater.
//
// A [Server] answers all 12 calls over TCP, framed and in the binary protocol. Its jobs are
// jobs for outside workers (see package outside) of one type. They have the retries, the
// retention and the place in the dashboard that other jobs have, and a worker that leases
// jobs over HTTP can run them too.
//
//	PinLater             here
//	mail:s1:p2:4711      job pinlater-4711 in queue mail, with the tag pinlater-p2 (none for
//	                     priority 1) and the priority -2
//	PENDING              scheduled, pending, blocked, parked or retrying
//	IN_PROGRESS          running, under a lease whose owner ends in the claim
//	SUCCEEDED            succeeded
//	FAILED               failed, canceled or expired
//	body                 the payload, as bytes
//	custom status        the metadata pinlater-status
//	claim timeout        the end of the lease, which ends the attempt as failed
//
// Jobs for PinLater's workers may also be put in Go or over HTTP, with Options.JobType and an ID of
// pinlater- and a number, which nothing else may use.
//
// # Acknowledgements
//
// The acknowledgements of PinLater name a job and carry no token, so they can't be fenced: a
// worker whose claim has timed out, and who acknowledges late, ends the run of the worker
// that has the job by then. Clients rely on it. Workers that need fencing use package outside
// or its HTTP interface.
//
// # Security and limits
//
// The protocol has neither a login nor encryption. A Server refuses to listen on other than
// loopback addresses and Unix sockets unless Options.AllowRemote is set. It reaches only jobs
// of its own type, in queues that were made with createQueue, whose names begin with
// Options.QueuePrefix.
//
// Besides the limits of Options, a list in a request has at most 100,000 elements, a dequeue 32 MiB,
// a scan 10,000 jobs, and a regular expression 4 KiB. A request that isn't Thrift closes its
// connection; one that doesn't decode is answered with a TApplicationException.
package pinlater
