// Package outside gives jobs to workers outside of this program, in any language. A
// [Dispatcher] leases jobs to workers and takes their acknowledgements. Package rest serves
// it over HTTP.
//
// The jobs are those of job.Declare and job.NewOutside, in any queue over a driver (memory,
// SQLite, PostgreSQL, MongoDB). They have all options that other jobs have, share scopes,
// dependencies and unique keys with them, and appear in the same places. Go processes leave
// them alone.
//
//	pending ──Lease──▶ leased ──Acknowledge──▶ succeeded, failed or retrying
//	   ▲                 │
//	   ├──── Release ────┤
//	   ├── Checkpoint ───┤  with Again: the rest is done later
//	   └─ lease ran out ─┘  an interruption, which is no attempt; too many park the job
//
// A lease has a [Token]. It is not kept in memory: it is valid in every process on the
// store, and after restarts. It is a fencing token: what a worker sends after its lease was
// lost is refused with an error that wraps ErrLeaseLost, even if no other worker has the job
// yet, or if another job was put under its ID. A worker that needs longer than its lease
// renews it with Heartbeat, whose answer also names the jobs that an operator has canceled.
// The tokens of the version before are accepted, so that servers can be updated while workers
// have jobs; they do not tell a job from a later one with its ID.
//
// A job with a time to run (job.Timeout) must end within that time from the lease on,
// however often it is renewed. After that the attempt has failed, and is retried if the job
// allows it. Whatever the worker sends later is refused with an *amboy.MaxTimeError or
// ErrLeaseLost.
package outside
