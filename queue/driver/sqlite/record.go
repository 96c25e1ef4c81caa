package sqlite

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/registry"
)

// job is a row of the table of jobs, but for the record and what only statements
// read.
type job struct {
	seq           int64
	name, id      string
	place         place
	priority      int
	waitUntil     sql.NullInt64
	dispatchBy    sql.NullInt64
	owner         string
	count         int
	leaseTime     sql.NullInt64
	started       sql.NullInt64
	scopes        names // all that it needs, with those of enqueueScopes
	enqueueScopes names
	waitingFor    sql.NullString
	edges, open   int
	dependents    bool
	failed        names
	reason        sql.NullString
	succeeded     bool
}

// jobColumns are the columns of a job, in the order of fields.
const jobColumns = `seq, name, job_id, place, priority, wait_until, dispatch_by, owner, lease_count, lease_time,
	started, scopes, enqueue_scopes, waiting_for, edges, open_edges, dependents, failed, reason, succeeded`

// fields are where the columns are scanned to.
func (j *job) fields() []any {
	return []any{
		&j.seq, &j.name, &j.id, &j.place, &j.priority, &j.waitUntil, &j.dispatchBy, &j.owner, &j.count, &j.leaseTime,
		&j.started, &j.scopes, &j.enqueueScopes, &j.waitingFor, &j.edges, &j.open, &j.dependents, &j.failed, &j.reason, &j.succeeded,
	}
}

// dispatchScopes are the scopes that are taken when the job starts, each once.
func (j *job) dispatchScopes() []string { return without(j.scopes, j.enqueueScopes) }

// before tells whether j runs before k.
func (j *job) before(k *job) bool {
	if j.priority != k.priority {
		return j.priority > k.priority
	}
	return j.seq < k.seq
}

// stored is a job with its record, as it is in the file.
type stored struct {
	job
	record []byte
}

// storedColumns are the columns of stored.
const storedColumns = jobColumns + ", record"

func scanStored(rows *sql.Rows) (*stored, error) {
	s := &stored{}
	err := rows.Scan(append(s.fields(), &s.record)...)
	return s, err
}

// newStored encodes a record that is to be inserted.
func newStored(r *driver.Record) (*stored, error) {
	s := &stored{job: job{
		name:          r.Name,
		id:            r.JobID(),
		priority:      r.Priority,
		waitUntil:     nanoseconds(r.TimeInfo.WaitUntil),
		dispatchBy:    nanoseconds(r.TimeInfo.DispatchBy),
		owner:         r.Status.Owner,
		count:         r.Status.ModificationCount,
		leaseTime:     nanoseconds(r.Status.ModificationTime),
		scopes:        union(r.RequiredScopes, r.EnqueueScopes),
		enqueueScopes: r.EnqueueScopes,
	}}
	if r.Dependency != nil {
		s.edges = len(r.Dependency.Edges)
	}
	var err error
	s.record, err = encode(r)
	return s, err
}

func encode(r *driver.Record) ([]byte, error) { return r.Encode(amboy.BSON2) }

// decode returns the record as it is now. Where what is stored can't be read, it
// returns an error, and a record without a job that shows the lease: whoever
// claimed it finds that it can't be run.
func (s *stored) decode() (*driver.Record, error) {
	r, err := registry.DecodeJobInterchange(s.record, amboy.BSON2)
	if err != nil {
		err = fmt.Errorf("reading record %q: %w", s.name, err)
		r = &driver.Record{Name: s.name}
	}
	status := &r.Status
	status.Owner, status.ModificationCount = s.owner, s.count
	if s.leaseTime.Valid {
		status.ModificationTime = timeOf(s.leaseTime.Int64)
	}
	schedule.Describe(status, schedulePlaces[s.place], schedule.Block{Scope: s.waitingFor.String, Open: s.open, Edges: s.edges})
	if s.reason.String != "" && (s.place == postponed || s.place == parked) {
		status.Reason = s.reason.String
	}
	refine(&r.TimeInfo.WaitUntil, s.waitUntil)
	refine(&r.TimeInfo.DispatchBy, s.dispatchBy)
	s.restoreRun(r)
	return r, err
}

// restoreRun sets what a claim and a hand-back change.
func (s *stored) restoreRun(r *driver.Record) {
	switch s.place {
	case running:
		r.Scopes = s.scopes
		r.TimeInfo.Start = timeOf(s.started.Int64)
	case finished:
		r.Scopes = nil
	case waiting, scheduled, postponed, scopeBlocked, ready, parked, retrying:
		r.Scopes = s.enqueueScopes
	}
	if len(s.failed) > 0 && s.place <= running && r.Dependency != nil {
		r.Dependency.Failed = s.failed
	}
}

// The times that the file can tell apart; those beyond are centuries away.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64-1)
)

// nanoseconds is how a time is stored, NULL for the zero time.
func nanoseconds(t time.Time) sql.NullInt64 {
	switch {
	case t.IsZero():
		return sql.NullInt64{}
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return sql.NullInt64{Int64: t.UnixNano(), Valid: true}
}

func timeOf(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// refine gives a time back what its encoding cut off, which is less than a
// millisecond.
func refine(t *time.Time, exact sql.NullInt64) {
	if !exact.Valid {
		return
	}
	if cut := timeOf(exact.Int64).Sub(*t); cut > 0 && cut < time.Millisecond {
		*t = t.Add(cut)
	}
}

// names is a list of names in a column, NULL where it is empty.
type names []string

// Scan implements sql.Scanner.
func (n *names) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*n = nil
		return nil
	case string:
		return json.Unmarshal([]byte(v), n)
	default:
		return fmt.Errorf("a list of names is stored as a %T", value)
	}
}

// Value implements the Valuer of database/sql.
func (n names) Value() (sqldriver.Value, error) {
	if len(n) == 0 {
		return nil, nil
	}
	text, err := json.Marshal([]string(n))
	return string(text), err
}
