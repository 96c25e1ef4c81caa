package table

import (
	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// EncodeSorted encodes records, and sorts them so that each comes after its dependencies. Records
// that can't be encoded, or are in a cycle, are left out and have an error.
func EncodeSorted[N any](records []*driver.Record, encode func(index int, r *driver.Record) (N, error)) (sorted []N, errs []error) {
	errs = make([]error, len(records))
	encoded := make([]N, len(records))
	order := make([]int, 0, len(records))
	hasEdges := false
	for i, r := range records {
		encoded[i], errs[i] = encode(i, r)
		if errs[i] == nil {
			order = append(order, i)
			hasEdges = hasEdges || len(waitsFor(r)) > 0
		}
	}
	if hasEdges {
		order = sortByEdges(records, order, errs)
	}
	sorted = make([]N, len(order))
	for at, i := range order {
		sorted[at] = encoded[i]
	}
	return sorted, errs
}

// waitsFor returns the dependencies of a record that waits to run.
func waitsFor(r *driver.Record) []string {
	if r.Dependency == nil || driver.InsertedState(r) != amboy.StatePending {
		return nil
	}
	return r.Dependency.Edges
}

// sortByEdges sorts the records with the given indexes by dependency, queue by queue.
func sortByEdges(records []*driver.Record, indexes []int, errs []error) (sorted []int) {
	byQueue := map[string][]*schedule.Entry[int]{}
	var queues []string
	for _, i := range indexes {
		r := records[i]
		if byQueue[r.Group] == nil {
			queues = append(queues, r.Group)
		}
		byQueue[r.Group] = append(byQueue[r.Group], &schedule.Entry[int]{Job: i, ID: r.JobID(), Edges: waitsFor(r)})
	}
	for _, queue := range queues {
		entries, cycles := schedule.Sort(byQueue[queue])
		for e, cycle := range cycles {
			errs[e.Job] = cycle
		}
		for _, e := range entries {
			sorted = append(sorted, e.Job)
		}
	}
	return sorted
}

// Duplicate returns the error for a record whose name or job ID an existing job has. The
// existing ID is empty if that job is gone.
func (j *Job) Duplicate(existing string) error {
	return &amboy.DuplicateJobError{JobID: j.ID, Reason: amboy.DuplicateID, Value: j.ID, ExistingID: existing}
}

// DuplicateKey returns the error for a record whose unique key an existing job holds.
func (j *Job) DuplicateKey(existing string) error {
	return &amboy.DuplicateJobError{JobID: j.ID, Reason: amboy.DuplicateUniqueKey, Value: j.UniqueKey, ExistingID: existing}
}

// DuplicateScope returns the error for a record one of whose enqueue scopes an existing job
// holds.
func (j *Job) DuplicateScope(name, existing string) error {
	return &amboy.DuplicateJobError{JobID: j.ID, Reason: amboy.DuplicateEnqueueScope, Value: name, ExistingID: existing}
}

// FirstPlace returns the place of a new job without scopes and dependencies.
func (j *Job) FirstPlace(now int64) Place {
	if j.WaitUntil.Valid && j.WaitUntil.Int64 > now {
		return Scheduled
	}
	return Ready
}

// HoldsKey reports whether a job that is inserted in a place holds its unique key.
func (j *Job) HoldsKey(p Place) bool {
	return j.UniqueKey != "" && j.KeepsKey(p) && (p.Final() || amboy.UniqueUntil(j.UniqueUntil) != amboy.UniqueUntilStarted)
}

// ScopesIn returns the scopes of a job that is inserted in a place.
func (j *Job) ScopesIn(p Place) []string {
	switch p {
	case Running:
		return j.AllScopes()
	case Retrying:
		return j.EnqueueScopes
	default:
		return nil
	}
}
