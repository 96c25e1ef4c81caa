package table

import "github.com/mongodb/amboy"

// An edge is a dependency of one job on another. Its row exists as long as the dependent job. The
// row of that job contains all its edges and may be large, so it is not written until the last of
// them has ended.

// The states of an edge.
const (
	OpenEdge   = 0 // the dependency has not ended
	FailedEdge = 1 // it ended without success
	EndedEdge  = 2 // it ended with success, or the job does not wait for it
)

// Edge returns the state of the edges to a job in this place.
func (p Place) Edge() int {
	switch {
	case !p.Final():
		return OpenEdge
	case p == Succeeded:
		return EndedEdge
	default:
		return FailedEdge
	}
}

// Target is a job on which another job depends.
type Target struct {
	Seq        int64 // 0 if the job does not exist
	ID         string
	Place      Place
	Dependents bool
}

// FindTargets finds the jobs that a job depends on. The edge to one that does not exist has ended.
func FindTargets(edges Names, find func(*Target) (found bool, err error)) ([]Target, error) {
	targets := make([]Target, 0, len(edges))
	for _, edge := range edges {
		t := Target{ID: edge}
		found, err := find(&t)
		if err != nil {
			return nil, err
		}
		if !found {
			t.Place = Succeeded
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// CheckTargets refuses a new job if a job that it depends on does not exist.
func CheckTargets(job string, targets []Target) (refusal error) {
	for _, t := range targets {
		if t.Seq == 0 {
			return &amboy.InvalidJobError{
				JobID: job,
				Field: "dependency edge",
				Value: t.ID,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}
		}
	}
	return nil
}

// InState returns the IDs of the targets to which an edge has a state.
func InState(targets []Target, edge int) (ids Names) {
	for _, t := range targets {
		if t.Place.Edge() == edge {
			ids = append(ids, t.ID)
		}
	}
	return ids
}
