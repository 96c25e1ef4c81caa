// Package workq serves the text protocol of workq, so that clients of workq put, lease and
// finish jobs of the queues of a group. docs/reference/workq.md lists where it differs from workq.
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
//
// # Commands
//
// A line ends with CR LF, and so does a block (a payload or a result), whose size is the last word
// of the line. Times are in milliseconds.
//
//	add <id> <name> <ttr> <ttl> <size> [-priority= -max-attempts= -max-fails=]
//	schedule <id> <name> <ttr> <ttl> <time> <size> [the same]
//	run <id> <name> <ttr> <wait-timeout> <size> [-priority=]
//	result <id> <wait-timeout>
//	lease <name>... <wait-timeout>
//	complete <id> <size>
//	fail <id> <size>
//	delete <id>
//	inspect job <id>
//	inspect jobs <name> <offset> <limit>
//	inspect scheduled-jobs <name> <offset> <limit>
//	inspect queue <name>
//	inspect queues <offset> <limit>
//	inspect server
//
// The time to run (ttr) of a lease can't be extended. When it is over, the job is ready again, in
// its old place, and has used an attempt. After -max-attempts, or MaxAttempts, it has failed with an
// empty result. The time to live (ttl) counts from add, or from the time of schedule. When it is
// over, the job is gone in every state, with its result. complete and fail end a job by its ID alone,
// and fail for good, unless Options.RetryFails is set.
package workq
