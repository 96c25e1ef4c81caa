// Package workq serves the text protocol of workq, so that clients of workq put, lease and
// finish jobs of the queues of a group. docs/reference/workq.md lists the commands and where they
// differ from those of workq.
//
//	client ──lines over TCP──▶ Server ──▶ outside.Dispatcher ──▶ the group's store
//
// A name of the protocol is a queue of the group, and a job is a job for outside workers of
// the type JobType, so that it appears in the dashboard, and can be leased over HTTP too.
// What the protocol knows of a job beyond that lies in its metadata.
//
// An ID is unique in all queues of the protocol. The server keeps an index of the IDs in the
// store. A Server keeps the times of the jobs that it was given, leased or found when it
// started: when the time to run of a lease is over, the job is handed back, and when the time
// to live is over, it is removed. Another Server on the store does not know of them, but
// treats a job whose time to live is over as gone.
//
// Acknowledgements have no tokens in this protocol. So a worker that lost its lease can still
// end the job, as with workq.
package workq
