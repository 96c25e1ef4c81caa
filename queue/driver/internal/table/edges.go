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

// Target is a job on which a new job depends.
type Target struct {
	Seq        int64
	ID         string
	Place      Place
	Dependents bool
}

// FindTargets finds the jobs that a job depends on, and refuses the job if one is missing.
func FindTargets(job string, edges Names, find func(*Target) (found bool, err error)) (targets []Target, refusal, err error) {
	targets = make([]Target, 0, len(edges))
	for _, edge := range edges {
		t := Target{ID: edge}
		found, err := find(&t)
		if err != nil {
			return nil, nil, err
		}
		if !found {
			return nil, &amboy.InvalidJobError{
				JobID: job,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}, nil
		}
		targets = append(targets, t)
	}
	return targets, nil, nil
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
