package sqlite

import (
	"cmp"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// job is the part of a record that decides its place.
type job struct {
	table.Job
	queue      int64
	overdue    bool
	waitingFor string // its group, while it waits for a scope
	// damage is why its row can't be read; nil if it can. What can't be read is zero.
	damage error
}

// jobColumns are the columns of a job, in the order in which read reads them.
const jobColumns = `seq, queue, place, priority, name, job_id, owner, lease_count, started, wait_until, dispatch_by, attempt,
	overdue, cancel, open_edges, dependents, unique_held, unique_key, unique_until, scopes, enqueue_scopes, waiting_for`

func (j *job) read(r *row) {
	j.Seq, j.queue = r.integer(), r.integer()
	j.Place, j.Priority = table.Place(r.integer()), r.int()
	j.Name, j.ID = r.text(), r.text()
	j.Owner, j.Count = r.text(), r.int()
	j.Stamp = r.time().Int64 // when it was claimed: a file uses the seq of a removed row again
	j.WaitUntil, j.DispatchBy, j.Attempt = r.time(), r.time(), r.time()
	j.overdue, j.Cancel, j.Open, j.Dependents = r.bool(), r.bool(), r.bool(), r.bool()
	j.UniqueHeld, j.UniqueKey, j.UniqueUntil = r.bool(), r.text(), r.text()
	j.Scopes, j.EnqueueScopes, j.waitingFor = r.names(), r.names(), r.text()
	j.damage = r.damage()
	if j.Place < 0 || j.Place >= table.Places {
		j.damage = fmt.Errorf("its place is %d", j.Place)
		j.Place = table.Parked // where nothing happens to it
	}
}

// stored is a record as it is stored in the file.
type stored struct {
	job
	table.Content
}

// recordColumns are the columns of stored.
const recordColumns = jobColumns + `, mod_time, created, ended, max_time, error_count, forget_at,
	type, version, format, dependency, edges,
	CASE open_edges WHEN 0 THEN failed ELSE
		(SELECT nullif(json_group_array(to_job), '[]') FROM edges WHERE from_seq = jobs.seq AND state = 1) END,
	CASE open_edges WHEN 0 THEN 0 ELSE
		(SELECT count(*) FROM edges WHERE from_seq = jobs.seq AND state = 0) END,
	tags, reason, progress, extra, body`

func (s *stored) read(r *row) {
	s.job.read(r)
	s.Started = table.Instant{Int64: s.Stamp, Valid: s.Stamp != 0}
	s.ModTime, s.Created, s.Ended = r.time(), r.time(), r.time()
	s.MaxTime, s.ErrorCount, s.ForgetAt = r.integer(), r.int(), r.time()
	s.Type, s.Version, s.Format = r.text(), r.int(), r.int()
	s.Dependency = r.int()
	s.Edges, s.Failed, s.OpenEdges = r.names(), r.names(), r.int()
	s.Tags, s.Reason = r.names(), r.text()
	s.Progress, s.Extra, s.Body = r.bytes(), r.bytes(), r.bytes()
	s.damage = cmp.Or(s.damage, r.damage())
}

// decode returns the current record of a queue; see table.Content.Decode. An error about a
// damaged row wraps errDamagedRow.
func (s *stored) decode(queue string) (*driver.Record, error) {
	damage := s.damage
	if damage != nil {
		damage = fmt.Errorf("%w: %w", errDamagedRow, damage)
	}
	return s.Decode(&s.Job, queue, damage)
}

// nullable returns NULL for an empty string.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob returns NULL for an empty slice.
func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
