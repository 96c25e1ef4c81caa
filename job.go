package amboy

import (
	"errors"
	"fmt"
)

// Prioritized is implemented by jobs with a priority. job.Base implements it.
type Prioritized interface {
	// Priority is the job's priority; the default is 0. Jobs with a larger
	// priority run first. Jobs of equal priority run in the order in which they
	// were put.
	Priority() int
	// SetPriority changes the priority. It must be called before Put.
	SetPriority(int)
}

// PriorityOf returns the priority of a job, or 0 if its type has none.
func PriorityOf(j Job) int {
	if p, ok := j.(Prioritized); ok {
		return p.Priority()
	}
	return 0
}

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

// MetadataJob is implemented by jobs that carry data for other code, for instance
// middleware, from Put to Run. The data is stored with the job, and all of its attempts
// share it. job.Base implements it.
type MetadataJob interface {
	// Metadata returns a copy of the data; nil if there is none.
	Metadata() map[string]string
	// SetMetadata sets the value of a key. An empty value removes the key. It must be
	// called before Put, or by middleware during Put.
	SetMetadata(key, value string)
}

// MetadataOf returns a copy of the metadata of a job, or nil if its type has none.
func MetadataOf(j Job) map[string]string {
	if m, ok := j.(MetadataJob); ok {
		return m.Metadata()
	}
	return nil
}

// SetMetadata sets a value in the metadata of a job, as MetadataJob.SetMetadata does. The error
// wraps errors.ErrUnsupported if the job is no MetadataJob.
func SetMetadata(j Job, key, value string) error {
	m, ok := j.(MetadataJob)
	if !ok {
		return fmt.Errorf("setting metadata of a job: its type %T does not support that: %w", j, errors.ErrUnsupported)
	}
	m.SetMetadata(key, value)
	return nil
}

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

// Counts reports whether a job in a state holds its unique key. A job that started once does not hold
// a key for UniqueUntilStarted any more, even if it waits for another attempt.
func (u UniqueUntil) Counts(state JobState) bool {
	switch u {
	case UniqueUntilForgotten:
		return true
	case UniqueUntilFailed:
		return !state.IsFinal() || state == StateSucceeded
	case UniqueUntilStarted:
		return !state.IsFinal() && state != StateRunning && state != StateRetrying
	default:
		return !state.IsFinal()
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

// Format is an encoding in which jobs are stored.
type Format int

// The formats.
const (
	// BSON is the default. It encodes the jobs of definitions (see ArgsJob) and their results
	// as JSON, and hand-written job types as BSON with an empty slice or map for a nil one.
	BSON Format = 0
	// JSON is the encoding of the HTTP API and of copies in memory.
	JSON Format = 1
	// BSON2 encodes all jobs as BSON, with null for a nil slice or map.
	BSON2 Format = 2
)

// IsValid reports whether f is one of the three formats.
func (f Format) IsValid() bool { return f >= BSON && f <= BSON2 }

// String returns the name of the format.
func (f Format) String() string {
	switch f {
	case BSON:
		return "bson"
	case JSON:
		return "json"
	case BSON2:
		return "bson2"
	default:
		return "invalid"
	}
}
