package postgres

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// newRecord is a record that is to be inserted.
type newRecord struct {
	stored
	index     int // in the Insert
	targets   []table.Target
	takenBy   string        // the job that has its name or ID; empty if there is none
	preset    table.Place   // of a record that does not wait to run; 0 otherwise
	leaseTime time.Duration // of a running record
	isAdded   bool          // of a plain record, when it was inserted
	// isAnnounced is set if other processes were notified in the round trip that inserted the record.
	isAnnounced bool
	refusal     error
}

// encodeInserted encodes a record that Insert adds. Unlike encodeNew, it refuses names that are too
// long.
func encodeInserted(index int, r *driver.Record) (*newRecord, error) {
	if err := checkLengths(r); err != nil {
		return nil, err
	}
	return encodeNew(index, r)
}

// maxName is the maximum length of names. An entry of an index takes 2,704 bytes.
const maxName = 2600

// checkLengths refuses a record with a name that is too long for an index. Scopes get there when a
// record may run, which may be in the middle of a claim, or of the end of another job.
func checkLengths(r *driver.Record) error {
	rule := fmt.Sprintf("must have at most %d bytes", maxName)
	var err error
	check := func(field, value string, length int) {
		if length > maxName {
			short := storable(value[:min(100, len(value))]) + "…"
			err = errors.Join(err, &amboy.InvalidJobError{JobID: r.JobID(), Field: field, Value: short, Rule: rule})
		}
	}
	check("ID", r.JobID(), len(r.Name))
	check("type", r.Type, len(r.Type))
	check("unique key", r.UniqueKey, len(r.UniqueKey))
	for field, scopes := range map[string][]string{"scope": r.RequiredScopes, "enqueue scope": r.EnqueueScopes} {
		for _, name := range scopes {
			check(field, name, max(len(use(name, r.JobID())), len(use(name, int64(math.MaxInt64)))))
		}
	}
	return err
}

// encodeNew encodes a record for insertion.
func encodeNew(index int, r *driver.Record) (*newRecord, error) {
	if err := checkStorable(r); err != nil {
		return nil, err
	}
	e, err := table.Encode(r)
	if err != nil {
		return nil, err
	}
	n := &newRecord{index: index, stored: stored{job: job{Job: e.Job, queueName: r.Group, kind: kindOf(r)}, Content: e.Content}}
	switch state := driver.InsertedState(r); state {
	case amboy.StatePending:
	case amboy.StateRunning:
		n.preset, n.leaseTime = table.Running, r.LeaseTime
	default:
		n.preset = table.FinalPlace(state)
	}
	return n, nil
}

// storableRule says which texts PostgreSQL can store.
const storableRule = "must be valid UTF-8 without zero bytes, as PostgreSQL stores no other text"

// checkStorable refuses a record with a name that PostgreSQL can't store.
func checkStorable(r *driver.Record) error {
	invalid := func(field, value string) error {
		if isStorable(value) {
			return nil
		}
		return &amboy.InvalidJobError{JobID: r.JobID(), Field: field, Value: value, Rule: storableRule}
	}
	err := errors.Join(invalid("ID", r.Name), invalid("type", r.Type), invalid("unique key", r.UniqueKey), invalid("queue", r.Group),
		invalid("owner", r.Status.Owner))
	for field, values := range map[string][]string{"scope": r.RequiredScopes, "enqueue scope": r.EnqueueScopes, "tag": r.Tags} {
		for _, value := range values {
			err = errors.Join(err, invalid(field, value))
		}
	}
	if r.Dependency != nil {
		for _, edge := range r.Dependency.Edges {
			err = errors.Join(err, invalid("dependency edge", edge))
		}
	}
	return err
}
