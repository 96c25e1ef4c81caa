package amboy

// OutsideJob is implemented by jobs that workers outside of this program may run, in any
// language: the jobs of job.Declare and job.NewOutside. Package outside gives such jobs to
// their workers.
type OutsideJob interface {
	// ForOutside reports whether the job is stored in the form that workers outside of
	// this program can read.
	ForOutside() bool
	// RunsHere reports whether this process has a function that runs the job. Queues leave
	// the jobs that it can't run to other processes and to outside workers.
	RunsHere() bool
}

// IsForOutside reports whether workers outside of this program may run a job.
func IsForOutside(j Job) bool {
	o, ok := j.(OutsideJob)
	return ok && o.ForOutside()
}

// RunsHere reports whether this process can run a job. It is true for jobs that are not
// OutsideJobs.
func RunsHere(j Job) bool {
	o, ok := j.(OutsideJob)
	return !ok || o.RunsHere()
}
