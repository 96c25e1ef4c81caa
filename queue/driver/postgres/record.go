package postgres

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// job is the part of a record that decides its place.
type job struct {
	table.Job
	queue     int32
	queueName string
	line      int32  // negative while the job is not in the line
	kind      string // as kindOf returns it; empty if unknown
	// waitingFor is the key of the scope that the record waits for, once it was moved.
	waitingFor string
}

// jobColumns are the columns of a job, in the order in which read reads them.
const jobColumns = `seq, queue, line, place, priority, name, job_id, owner, lease_count, wait_until, dispatch_by, attempt,
	cancel, open_edges, dependents, unique_held, unique_key, unique_until, scopes, enqueue_scopes`

func (j *job) read(r *row) {
	j.Seq, j.queue, j.line = r.integer(), r.key(), r.key()
	j.Stamp = j.Seq // which is never used again
	j.Place, j.Priority = table.Place(r.integer()), r.int()
	j.Name, j.ID = r.text(), r.text()
	j.Owner, j.Count = r.text(), r.int()
	j.WaitUntil, j.DispatchBy, j.Attempt = r.time(), r.time(), r.time()
	j.Cancel, j.Open, j.Dependents = r.bool(), r.bool(), r.bool()
	j.UniqueHeld, j.UniqueKey, j.UniqueUntil = r.bool(), r.text(), r.text()
	j.Scopes, j.EnqueueScopes = r.names(), r.names()
}

// kindOf returns the kind of a record as it is stored.
func kindOf(r *driver.Record) string { return storable(driver.KindOf(r).Key()) }

// in sets the queue name of the job. The record's name may follow from it and the job's ID.
func (j *job) in(queueName string) {
	j.queueName = queueName
	if j.Name == "" {
		j.Name = driver.RecordName(queueName, j.ID, amboy.JobRetryInfo{})
	}
}

// stored is a record as it is stored in the table.
type stored struct {
	job
	table.Content
}

// recordColumns are the columns of stored, in the order in which read reads them.
const recordColumns = columnsWithEdges + `progress, extra, body`

// briefColumns are the same without the body, which may be large, and the progress.
const briefColumns = columnsWithEdges + `NULL::bytea, extra, NULL::bytea`

// readyColumns are recordColumns for a record that may run: no edge of it is open.
const readyColumns = columnsBeforeEdges + `failed, 0::bigint` + columnsAfterEdges + `progress, extra, body`

const (
	columnsWithEdges = columnsBeforeEdges +
		`CASE WHEN open_edges THEN (SELECT json_agg(to_job)::text FROM {s}.edges WHERE from_seq = jobs.seq AND state = 1) ELSE failed END,
	CASE WHEN open_edges THEN (SELECT count(*) FROM {s}.edges WHERE from_seq = jobs.seq AND state = 0) ELSE 0 END` + columnsAfterEdges
	columnsBeforeEdges = jobColumns + `, waiting_for, mod_time, created, started, ended, max_time, error_count, forget_at,
	type, version, format, dependency, edges, `
	columnsAfterEdges = `, tags::text, reason, `
)

func (s *stored) read(r *row) {
	s.job.read(r)
	s.BlockedBy = r.text()
	s.ModTime, s.Created, s.Started, s.Ended = r.time(), r.time(), r.time(), r.time()
	s.MaxTime, s.ErrorCount, s.ForgetAt = r.integer(), r.int(), r.time()
	s.Type, s.Version, s.Format = r.text(), r.int(), r.int()
	s.Dependency = r.int()
	s.Edges, s.Failed, s.OpenEdges = r.names(), r.names(), r.int()
	s.Tags, s.Reason = r.names(), r.text()
	s.Progress, s.Extra, s.Body = r.bytes(), r.bytes(), r.bytes()
}

// decode returns the current record; see table.Content.Decode.
func (s *stored) decode() (*driver.Record, error) { return s.Decode(&s.Job, s.queueName, nil) }

// column is the value of names for an array of such columns.
func column(n table.Names) pgtype.Text {
	text, _ := n.Value() // Strings can always be encoded.
	s, valid := text.(string)
	return pgtype.Text{String: s, Valid: valid}
}

// nullable returns NULL for an empty string. PostgreSQL stores no text with invalid UTF-8 or a zero
// byte; such bytes are replaced.
func nullable(s string) pgtype.Text {
	return pgtype.Text{String: storable(s), Valid: s != ""}
}

func storable(s string) string {
	if isStorable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// isStorable reports whether PostgreSQL can store a text.
func isStorable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// blob returns NULL for an empty slice.
func blob(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
