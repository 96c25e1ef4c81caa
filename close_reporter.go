package amboy

// CloseReporter is implemented by queues and runners whose Close returns although jobs
// still run: those of this module do within a second of the end of its context. Such a
// queue reports what its runner does, if that is a CloseReporter too, as those of package
// pool are.
type CloseReporter interface {
	// LeftBehind returns the IDs, sorted, of the jobs that workers still had when Close
	// returned: their Run had not, or the queue had not taken their end. It returns nil
	// before, and if there were none. In a store their leases are not renewed any more,
	// so that another process runs them when these are over. It does not block, and is
	// safe for concurrent use.
	LeftBehind() []string
}
