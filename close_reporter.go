package amboy

// CloseReporter is implemented by queues and runners whose Close may return while jobs
// still run. The queues and runners of this module return within a second of the end of
// the context of Close. A queue includes the report of its runner if that is a
// CloseReporter, as the runners of package pool are.
type CloseReporter interface {
	// LeftBehind returns the sorted IDs of the jobs that had not finished when Close
	// returned: their Run had not returned, or the queue had not recorded their end.
	// It returns nil before Close returns, and if there are none. The leases of these
	// jobs are no longer renewed, so another process runs the jobs when the leases
	// expire. It does not block and is safe for concurrent use.
	LeftBehind() []string
}
