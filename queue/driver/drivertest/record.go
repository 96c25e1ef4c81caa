package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// The types of the suite's jobs, which differ only in their names.
const (
	jobTypeName      = "drivertest"
	otherJobTypeName = "drivertest-other"
)

// testJob is a job of the suite. It is never run.
type testJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	// Note distinguishes contents.
	Note string `bson:"note" json:"note"`

	tags        []string
	uniqueKey   string
	uniqueUntil amboy.UniqueUntil
}

var (
	_ amboy.TaggedJob = (*testJob)(nil)
	_ amboy.UniqueJob = (*testJob)(nil)
)

func init() {
	for _, name := range []string{jobTypeName, otherJobTypeName} {
		registry.AddJobType(name, func() amboy.Job { return newTestJob(name) })
	}
}

func newTestJob(typeName string) *testJob {
	return &testJob{Base: job.Base{JobType: amboy.JobType{Name: typeName, Version: 1}}}
}

func (j *testJob) Run(context.Context) { j.MarkComplete() }

func (j *testJob) Tags() []string { return j.tags }

func (j *testJob) UniqueKey() (string, amboy.UniqueUntil) { return j.uniqueKey, j.uniqueUntil }

// spec describes a job to put.
type spec struct {
	id            string
	note          string
	created       time.Time // zero means the start of the test
	priority      int
	waitUntil     time.Time
	dispatchBy    time.Time
	scopes        []string
	enqueueScopes []string
	edges         []string
	retryable     bool
	typeName      string // empty means jobTypeName
	version       int    // 0 means the version of the type
	manager       string // the type of its dependency manager; empty means the plain one
	tags          []string
	uniqueKey     string
	uniqueUntil   amboy.UniqueUntil
}

// String lists the fields that are set, for the log of a history.
func (s spec) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "job %s", s.id)
	list := func(name string, isSet bool, value any) {
		if isSet {
			fmt.Fprintf(&text, " %s=%v", name, value)
		}
	}
	list("priority", s.priority != 0, s.priority)
	list("waitUntil", !s.waitUntil.IsZero(), clockTime(s.waitUntil))
	list("dispatchBy", !s.dispatchBy.IsZero(), clockTime(s.dispatchBy))
	list("scopes", len(s.scopes) > 0, s.scopes)
	list("enqueueScopes", len(s.enqueueScopes) > 0, s.enqueueScopes)
	list("edges", len(s.edges) > 0, s.edges)
	list("retryable", s.retryable, s.retryable)
	list("version", s.version != 0, s.version)
	list("manager", s.manager != "", s.manager)
	list("tags", len(s.tags) > 0, s.tags)
	list("uniqueKey", s.uniqueKey != "", s.uniqueKey+" until "+string(s.uniqueUntil))
	return text.String()
}

// record returns the job's record as a queue inserts it.
func (f *fixture) record(s spec) *driver.Record {
	f.Helper()
	j := newTestJob(cmp.Or(s.typeName, jobTypeName))
	j.tags, j.uniqueKey, j.uniqueUntil = s.tags, s.uniqueKey, s.uniqueUntil
	j.SetID(s.id)
	j.Note = s.note
	j.SetPriority(s.priority)
	created := s.created
	if created.IsZero() {
		created = f.start
	}
	j.SetTimeInfo(amboy.JobTimeInfo{Created: created, WaitUntil: s.waitUntil, DispatchBy: s.dispatchBy})
	j.SetScopes(s.scopes)
	j.SetEnqueueScopes(s.enqueueScopes...)
	for _, edge := range s.edges {
		require.NoError(f, j.Dependency().AddEdge(edge))
	}
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &s.retryable})

	r, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(f, err)
	r.Group = f.queue
	r.Name = driver.RecordName(f.queue, s.id, r.RetryInfo)
	r.Version = cmp.Or(s.version, r.Version)
	if s.manager != "" {
		dependency := *r.Dependency
		dependency.Type = s.manager
		r.Dependency = &dependency
	}
	return r
}

// ended returns a record as a queue writes it when its attempt ended in a state, which
// may be StateRetrying.
func ended(r *driver.Record, state amboy.JobState) *driver.Record {
	e := *r
	e.Status.Completed, e.Status.InProgress = true, false
	e.Status.Hold, e.Status.Reason = "", ""
	e.TimeInfo.End = wholeMillisecond(time.Now())
	switch state {
	case amboy.StateFailed, amboy.StateRetrying:
		e.Status.ErrorCount, e.Status.Errors = 1, []string{"it failed"}
	case amboy.StateCanceled:
		e.Status.Outcome = amboy.OutcomeCanceled
	case amboy.StateExpired:
		e.Status.Outcome = amboy.OutcomeExpired
	}
	e.RetryInfo.NeedsRetry = state == amboy.StateRetrying
	return &e
}

// endedRetry returns a record whose awaited retry has ended.
func endedRetry(r *driver.Record, state amboy.JobState) *driver.Record {
	e := ended(r, state)
	if state == amboy.StateSucceeded {
		e.Status.ErrorCount, e.Status.Errors = 0, nil
	}
	e.RetryInfo.End = wholeMillisecond(time.Now())
	return e
}

// nextAttempt returns the record that replaces one that awaits its retry.
func nextAttempt(r *driver.Record) *driver.Record {
	n := *r
	n.Status = amboy.JobStatusInfo{}
	n.TimeInfo = amboy.JobTimeInfo{Created: r.TimeInfo.Created}
	n.RetryInfo.NeedsRetry = false
	n.RetryInfo.CurrentAttempt++
	n.Scopes, n.Progress, n.Result, n.ForgetAt = nil, nil, nil, time.Time{}
	if n.Dependency != nil {
		dependency := *n.Dependency
		dependency.Failed = nil
		n.Dependency = &dependency
	}
	n.Name = driver.RecordName(r.Group, r.JobID(), n.RetryInfo)
	return &n
}

// attemptName returns the record name of an attempt of the retryable job "job".
func attemptName(queue string, attempt int) string {
	return driver.RecordName(queue, "job", amboy.JobRetryInfo{Retryable: true, CurrentAttempt: attempt})
}

// stateOf returns the state that a record shows.
func stateOf(r *driver.Record) amboy.JobState {
	return driver.StateOf(r, time.Now())
}

// body returns an encoded document that contains a note.
func (f *fixture) body(note string) *registry.Body {
	f.Helper()
	r := f.record(spec{id: "body", note: note})
	return &r.Job
}

// jobIDs returns the IDs of the jobs of records, in their order.
func jobIDs(records []*driver.Record) []string {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.JobID()
	}
	return ids
}

// wholeMillisecond truncates a time to the precision that every store keeps.
func wholeMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
