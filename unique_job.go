package amboy

// UniqueJob is implemented by jobs of which there must not be two at a time,
// whatever their IDs. Put refuses a job with a duplicate job error while another
// of the queue has the same key.
type UniqueJob interface {
	// UniqueKey is what no other job may have, and how long this one has it. A
	// job whose key is empty has none. It is asked for at Put.
	UniqueKey() (key string, until UniqueUntil)
}

// UniqueUntil says how long a job has its unique key.
type UniqueUntil string

// How long a job has its unique key.
const (
	// UniqueUntilEnded is until the job's last attempt ended. It is what the
	// empty value means.
	UniqueUntilEnded UniqueUntil = "ended"
	// UniqueUntilStarted is until the job is first claimed by a worker, so that
	// one may wait while another runs.
	UniqueUntilStarted UniqueUntil = "started"
	// UniqueUntilFailed is until the job ended without success. One that
	// succeeded has the key until the queue forgets it.
	UniqueUntilFailed UniqueUntil = "failed"
	// UniqueUntilForgotten is until the queue forgets the job, however it ended.
	UniqueUntilForgotten UniqueUntil = "forgotten"
)

// IsValid is true for the values above, and the empty one.
func (u UniqueUntil) IsValid() bool {
	switch u {
	case "", UniqueUntilEnded, UniqueUntilStarted, UniqueUntilFailed, UniqueUntilForgotten:
		return true
	default:
		return false
	}
}

// UniqueKeyOf returns the unique key of a job, and how long the job has it;
// empty for a job that has none.
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

// TaggedJob is implemented by jobs that have tags, by which people find them.
type TaggedJob interface {
	// Tags are asked for at Put.
	Tags() []string
}

// TagsOf returns the tags of a job, none for a type that has none.
func TagsOf(j Job) []string {
	if t, ok := j.(TaggedJob); ok {
		return t.Tags()
	}
	return nil
}
