package amboy

// ResultJob is implemented by jobs that leave a result, which is stored with the
// end of the job and not before. Jobs of job.DefineResult do.
type ResultJob interface {
	// Result is what the job left; nil where it left nothing. It is encoded as
	// a field of a document, in the format of the queue, with its own tags.
	Result() any
	// RestoreResult gives a job that was stored with a result the function that
	// decodes it into what a pointer refers to.
	RestoreResult(decode func(into any) error)
}

// ArgsJob is implemented by jobs that are made of a function and its arguments, as
// those of job.Define are.
type ArgsJob interface {
	// Args are the arguments. They must not be changed.
	Args() any
}
