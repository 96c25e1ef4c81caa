package amboy

// ResultJob is implemented by jobs that produce a result, such as the jobs of
// job.DefineResult. The result is stored together with the end of the job, not before.
type ResultJob interface {
	// Result is the job's result; nil if it has none. It is encoded as a field of a
	// document, in the format of the queue, with its own tags.
	Result() any
	// RestoreResult gives a job that was stored with a result a function that decodes
	// the result into the value that a pointer refers to.
	RestoreResult(decode func(into any) error)
}

// ArgsJob is implemented by jobs that consist of a function and its arguments, such as the
// jobs of job.Define.
type ArgsJob interface {
	// Args are the arguments. The caller must not change them.
	Args() any
}
