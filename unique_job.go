package amboy

// UniqueJob is implemented by jobs with a unique key. While a job in the queue holds a key,
// Put refuses another job with the same key, whatever its ID, with a duplicate job error.
type UniqueJob interface {
	// UniqueKey returns the key and how long the job holds it. An empty key means that
	// the job has none. It is called by Put.
	UniqueKey() (key string, until UniqueUntil)
}

// UniqueUntil is how long a job holds its unique key.
type UniqueUntil string

// The values of UniqueUntil.
const (
	// UniqueUntilEnded: until the job's last attempt has ended. The empty value means
	// the same.
	UniqueUntilEnded UniqueUntil = "ended"
	// UniqueUntilStarted: until a worker first claims the job, so that one job may wait
	// while another runs.
	UniqueUntilStarted UniqueUntil = "started"
	// UniqueUntilFailed: until the job ends without success. A job that succeeded holds
	// the key until the queue removes the job.
	UniqueUntilFailed UniqueUntil = "failed"
	// UniqueUntilForgotten: until the queue removes the job, however it ended.
	UniqueUntilForgotten UniqueUntil = "forgotten"
)

// IsValid reports whether u is one of the values above or empty.
func (u UniqueUntil) IsValid() bool {
	switch u {
	case "", UniqueUntilEnded, UniqueUntilStarted, UniqueUntilFailed, UniqueUntilForgotten:
		return true
	default:
		return false
	}
}

// UniqueKeyOf returns the unique key of a job and how long the job holds it; both are empty
// if the job has none.
func UniqueKeyOf(j Job) (key string, until UniqueUntil) {
	u, ok := j.(UniqueJob)
	if !ok {
		return "", ""
	}
	key, until = u.UniqueKey()
	if key == "" {
		return "", ""
	}
	if until == "" {
		until = UniqueUntilEnded
	}
	return key, until
}

// TaggedJob is implemented by jobs that have tags, by which operators find them.
type TaggedJob interface {
	// Tags returns the tags. It is called by Put.
	Tags() []string
}

// TagsOf returns the tags of a job, or nil if its type has none.
func TagsOf(j Job) []string {
	if t, ok := j.(TaggedJob); ok {
		return t.Tags()
	}
	return nil
}
