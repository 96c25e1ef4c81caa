package mongodb

import (
	"slices"

	"github.com/mongodb/amboy/queue/internal/schedule"
)

// sortByEdges orders documents so that each comes after its dependencies. Documents in a
// cycle are left out and get an error.
func sortByEdges(all []*newDocument, errs []error) []*newDocument {
	if !slices.ContainsFunc(all, func(n *newDocument) bool { return len(n.edges()) > 0 }) {
		return all
	}
	type entry = schedule.Entry[*newDocument]
	queues := map[string][]*entry{}
	for _, n := range all {
		queues[n.Group] = append(queues[n.Group], &entry{Job: n, ID: n.JobID, Edges: n.edges()})
	}
	for name, entries := range queues {
		sorted, cycles := schedule.Sort(entries)
		for e, err := range cycles {
			errs[e.Job.index] = err
		}
		queues[name] = sorted
	}
	// Each queue keeps its positions in the batch; its documents are reordered among
	// them.
	sorted := make([]*newDocument, 0, len(all))
	for _, n := range all {
		if entries := queues[n.Group]; len(entries) > 0 {
			sorted = append(sorted, entries[0].Job)
			queues[n.Group] = entries[1:]
		}
	}
	inSteps(sorted)
	return sorted
}

// inSteps assigns each document the step in which it is stored. Consecutive documents
// share a step if none depends on another one of the step.
func inSteps(sorted []*newDocument) {
	var s steps
	for _, n := range sorted {
		n.step = s.of(n.document, n.edges())
	}
}

// steps assigns documents to steps, in their order.
type steps struct {
	last     int
	together map[key]bool // the jobs of the last step
}

// of returns the step of the next document. It is not that of a document that it has an edge to.
func (s *steps) of(doc *document, edges []string) int {
	if slices.ContainsFunc(edges, func(edge string) bool { return s.together[key{doc.Group, edge}] }) {
		s.last++
		s.together = nil
	}
	if s.together == nil {
		s.together = map[key]bool{}
	}
	s.together[key{doc.Group, doc.jobID()}] = true
	return s.last
}
