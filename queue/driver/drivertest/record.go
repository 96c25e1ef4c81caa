package drivertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

const jobTypeName = "drivertest"

// testJob is the type of the suite's jobs. It is never run.
type testJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	// Note tells one content from another.
	Note string `bson:"note" json:"note"`
}

func init() {
	registry.AddJobType(jobTypeName, func() amboy.Job { return newTestJob() })
}

func newTestJob() *testJob {
	return &testJob{Base: job.Base{JobType: amboy.JobType{Name: jobTypeName, Version: 1}}}
}

func (j *testJob) Run(context.Context) { j.MarkComplete() }

// spec describes a job to put.
type spec struct {
	id            string
	note          string
	priority      int
	waitUntil     time.Time
	dispatchBy    time.Time
	scopes        []string
	enqueueScopes []string
	edges         []string
	retryable     bool
}

// record is the job as a queue puts it.
func (f *fixture) record(s spec) *driver.Record {
	f.Helper()
	j := newTestJob()
	j.SetID(s.id)
	j.Note = s.note
	j.SetPriority(s.priority)
	j.SetTimeInfo(amboy.JobTimeInfo{Created: f.start, WaitUntil: s.waitUntil, DispatchBy: s.dispatchBy})
	j.SetScopes(s.scopes)
	j.SetEnqueueScopes(s.enqueueScopes...)
	for _, edge := range s.edges {
		require.NoError(f, j.Dependency().AddEdge(edge))
	}
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &s.retryable})

	r, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(f, err)
	r.Name = driver.RecordName(s.id, r.RetryInfo)
	return r
}

// ended is a record as a queue writes it when its attempt ended in one of the
// states that StateOf knows for that, StateRetrying among them.
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

// endedRetry is a record that awaited its retry, and is done with it.
func endedRetry(r *driver.Record, state amboy.JobState) *driver.Record {
	e := ended(r, state)
	if state == amboy.StateSucceeded {
		e.Status.ErrorCount, e.Status.Errors = 0, nil
	}
	e.RetryInfo.End = wholeMillisecond(time.Now())
	return e
}

// nextAttempt is the record that replaces one that awaits its retry.
func nextAttempt(r *driver.Record) *driver.Record {
	n := *r
	n.Status = amboy.JobStatusInfo{}
	n.TimeInfo = amboy.JobTimeInfo{Created: r.TimeInfo.Created}
	n.RetryInfo.NeedsRetry = false
	n.RetryInfo.CurrentAttempt++
	n.Scopes = nil
	if n.Dependency != nil {
		dependency := *n.Dependency
		dependency.Failed = nil
		n.Dependency = &dependency
	}
	n.Name = driver.RecordName(r.JobID(), n.RetryInfo)
	return &n
}

// stateOf is the state that a record shows.
func stateOf(r *driver.Record) amboy.JobState {
	return driver.StateOf(r, time.Now())
}

// jobIDs are the IDs of the jobs of records, in their order.
func jobIDs(records []*driver.Record) []string {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.JobID()
	}
	return ids
}

// wholeMillisecond is a time that every store keeps.
func wholeMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
