// Package table defines how the drivers of SQL databases divide records into columns, and makes
// the decisions about them that need no statement.
package table

import (
	"cmp"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// Job contains the columns that decide the place of a record.
type Job struct {
	Seq           int64
	Place         Place
	Priority      int
	Name, ID      string
	Owner         string
	Count         int
	Stamp         int64 // of its leases
	WaitUntil     Instant
	DispatchBy    Instant
	Attempt       Instant // not valid for a job that can't be retried
	Cancel        bool    // it is running and is to be canceled
	Open          bool    // some of its dependencies have not ended
	Dependents    bool
	UniqueHeld    bool
	UniqueKey     string
	UniqueUntil   string
	Scopes        Names
	EnqueueScopes Names
}

func newJob(r *driver.Record) Job {
	j := Job{
		Priority:      r.Priority,
		Name:          r.Name,
		ID:            r.JobID(),
		Owner:         r.Status.Owner,
		Count:         r.Status.ModificationCount,
		WaitUntil:     InstantOf(r.TimeInfo.WaitUntil),
		DispatchBy:    InstantOf(r.TimeInfo.DispatchBy),
		UniqueKey:     r.UniqueKey,
		UniqueUntil:   string(r.UniqueUntil),
		Scopes:        r.RequiredScopes,
		EnqueueScopes: r.EnqueueScopes,
	}
	if r.RetryInfo.Retryable || r.Name != driver.RecordName(r.Group, j.ID, amboy.JobRetryInfo{}) {
		j.Attempt = Instant{Int64: int64(r.RetryInfo.CurrentAttempt), Valid: true}
	}
	return j
}

// AllScopes returns the scopes that the job needs, each once.
func (j *Job) AllScopes() []string {
	if len(j.EnqueueScopes) == 0 {
		return nameset.Without(j.Scopes, nil)
	}
	return append(nameset.Without(j.Scopes, nil), nameset.Without(j.EnqueueScopes, j.Scopes)...)
}

// DispatchScopes returns the scopes that are taken when the job starts, each once.
func (j *Job) DispatchScopes() []string {
	if len(j.Scopes) == 0 {
		return nil
	}
	return nameset.Without(j.Scopes, j.EnqueueScopes)
}

// Compare sorts jobs in the order in which they run.
func (j *Job) Compare(k *Job) int {
	return cmp.Or(cmp.Compare(k.Priority, j.Priority), cmp.Compare(j.Seq, k.Seq))
}

// KeepsKey reports whether a job keeps its unique key in a place.
func (j *Job) KeepsKey(p Place) bool {
	switch amboy.UniqueUntil(j.UniqueUntil) {
	case amboy.UniqueUntilForgotten:
		return true
	case amboy.UniqueUntilFailed:
		return !p.Final() || p == Succeeded
	default:
		return !p.Final()
	}
}
