package dependency

import (
	"fmt"
	"slices"
)

// JobEdges holds the IDs of the jobs that must end first. Managers embed it for AddEdge,
// Edges and the failure policy. It is not safe for concurrent use.
type JobEdges struct {
	// TaskEdges are the IDs.
	TaskEdges []string `bson:"edges" json:"edges" yaml:"edges"`
	// FailurePolicy is what happens if one of them does not succeed. It is stored only if
	// it is not the default.
	FailurePolicy FailurePolicy `bson:"on_failure,omitempty" json:"on_failure,omitempty" yaml:"on_failure,omitempty"`

	// seen contains the edges of a large set, in which a linear search would be slow.
	seen map[string]struct{}
}

// largeSet is the number of edges from which a map is used to find duplicates.
const largeSet = 32

// NewJobEdges returns a set without edges.
func NewJobEdges() JobEdges { return JobEdges{TaskEdges: []string{}} }

// AddEdge adds the ID of a job that must end first. It returns an error if the ID is empty
// or was already added.
func (e *JobEdges) AddEdge(id string) error {
	if id == "" {
		return fmt.Errorf("dependency edge must not be empty")
	}
	if e.has(id) {
		return fmt.Errorf("dependency edge %q already exists", id)
	}
	e.TaskEdges = append(e.TaskEdges, id)
	if e.seen != nil {
		e.seen[id] = struct{}{}
	}
	return nil
}

func (e *JobEdges) has(id string) bool {
	if len(e.TaskEdges) < largeSet {
		return slices.Contains(e.TaskEdges, id)
	}
	if len(e.seen) != len(e.TaskEdges) {
		e.seen = make(map[string]struct{}, 2*len(e.TaskEdges))
		for _, edge := range e.TaskEdges {
			e.seen[edge] = struct{}{}
		}
	}
	_, ok := e.seen[id]
	return ok
}

// Edges returns a copy of the IDs.
func (e *JobEdges) Edges() []string { return slices.Clone(e.TaskEdges) }

// OnFailure returns what happens if one of the edges does not succeed.
func (e *JobEdges) OnFailure() FailurePolicy { return e.FailurePolicy }

// SetOnFailure sets what happens if one of the edges does not succeed.
func (e *JobEdges) SetOnFailure(p FailurePolicy) { e.FailurePolicy = p }
