package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Graph contains a job and the jobs it is connected to by dependencies. An edge leads from
// a job to one that it waits for.
type Graph struct {
	// Jobs are the jobs of the graph: the requested job, and those up to the requested distance.
	Jobs []GraphJob `json:"jobs"`
	// Edges lead from each waiting job of the graph to the jobs that it waits for.
	Edges []GraphEdge `json:"edges"`
	// Truncated is true if not all jobs fit into the graph.
	Truncated bool `json:"truncated,omitempty"`
}

// GraphJob is a job in a Graph.
type GraphJob struct {
	JobRef
	State amboy.JobState `json:"state,omitempty"`
	Type  string         `json:"type,omitempty"`
	// Distance is the distance from the requested job: negative for jobs that are waited
	// for, positive for jobs that wait, and 0 for the job itself.
	Distance int `json:"distance"`
	// Holds is true if the job has not ended, and other jobs of the graph wait for it.
	Holds bool `json:"holds,omitempty"`
}

// GraphEdge leads from the ID of a waiting job to the ID of the job it waits for.
type GraphEdge struct {
	// From is the ID of the waiting job, and To the ID of the job that it waits for.
	From string `json:"from"`
	To   string `json:"to"`
}

func (i *inspector) Graph(ctx context.Context, queue, id string, distance int) (Graph, error) {
	var errDistance error
	if distance < 1 || distance > MaxGraphDistance {
		errDistance = invalid("distance", fmt.Sprint(distance), fmt.Sprintf("must be from 1 to %d", MaxGraphDistance))
	}
	if err := i.check(validQueue(queue), validJobID(id), errDistance); err != nil {
		return Graph{}, fmt.Errorf("following dependencies: %w", err)
	}
	if _, err := i.resolveQueues([]string{queue}); err != nil {
		return Graph{}, fmt.Errorf("following the dependencies of job %q: %w", id, err)
	}
	root, err := i.get(ctx, queue, id)
	if err != nil {
		return Graph{}, fmt.Errorf("following the dependencies of job %q of queue %q: %w", id, queue, err)
	}
	g := &graphBuilder{inspector: i, queue: queue, nodes: map[string]*GraphJob{}, edges: map[string][]string{}}
	g.addRecord(root, 0)
	err = g.followDown(ctx, distance)
	if err == nil {
		err = g.followUp(ctx, id, distance)
	}
	if err != nil {
		return Graph{}, fmt.Errorf("following the dependencies of job %q of queue %q: %w", id, queue, err)
	}
	return g.graph(), nil
}

// graphBuilder follows dependencies breadth first.
type graphBuilder struct {
	*inspector
	queue string
	nodes map[string]*GraphJob
	order []*GraphJob
	// edges are the edges of the jobs that exist, by ID.
	edges     map[string][]string
	truncated bool
}

// add adds a job unless it was added before or the graph is full. It reports whether it did.
func (g *graphBuilder) add(node GraphJob) bool {
	if g.nodes[node.ID] != nil {
		return false
	}
	if len(g.nodes) == MaxGraphJobs {
		g.truncated = true
		return false
	}
	g.nodes[node.ID] = &node
	g.order = append(g.order, &node)
	return true
}

func (g *graphBuilder) addRecord(r *driver.Record, distance int) bool {
	state := driver.StateOf(r, g.store.Now())
	node := GraphJob{JobRef: refOf(r), State: state, Type: r.Type, Distance: distance, Holds: !hasEnded(state)}
	if !g.add(node) {
		return false
	}
	g.edges[node.ID] = edgesOf(r)
	return true
}

// followDown adds the jobs that the root waits for, directly or through others.
func (g *graphBuilder) followDown(ctx context.Context, distance int) error {
	front := g.order
	for d := 1; d <= distance && len(front) > 0; d++ {
		wanted := g.wanted(front)
		found, err := g.byIDs(ctx, g.queue, wanted)
		if err != nil {
			return err
		}
		front = nil
		for _, id := range wanted {
			added := false
			if r := found[id]; r != nil {
				added = g.addRecord(r, -d)
			} else { // the job does not exist
				added = g.add(GraphJob{JobRef: JobRef{Queue: g.queue, ID: id}, Distance: -d})
			}
			if added {
				front = append(front, g.nodes[id])
			}
		}
	}
	return nil
}

// wanted returns the IDs of the jobs that the front depends on and that are not in the
// graph yet, as far as there is room.
func (g *graphBuilder) wanted(front []*GraphJob) []string {
	var ids []string
	seen := map[string]bool{}
	for _, node := range front {
		for _, id := range g.edges[node.ID] {
			if g.nodes[id] != nil || seen[id] {
				continue
			}
			if len(g.nodes)+len(ids) == MaxGraphJobs {
				g.truncated = true
				return ids
			}
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// followUp adds the jobs that wait for the root, directly or through others.
func (g *graphBuilder) followUp(ctx context.Context, id string, distance int) error {
	front := []string{id}
	for d := 1; d <= distance && len(front) > 0; d++ {
		var next []string
		for _, id := range front {
			added, err := g.addDependents(ctx, id, d)
			if err != nil {
				return err
			}
			next = append(next, added...)
		}
		front = next
	}
	return nil
}

// addDependents adds the jobs that depend on a job, as far as there is room, and returns
// the IDs of those it added.
func (g *graphBuilder) addDependents(ctx context.Context, id string, distance int) (added []string, err error) {
	query := driver.Query{Queues: []string{g.queue}, DependsOn: id, Latest: true}
	for r, err := range g.records(ctx, query, driver.PageRequest{Limit: pageSize}) {
		if err != nil {
			return nil, err
		}
		if g.addRecord(r, distance) {
			added = append(added, r.JobID())
		}
		if g.truncated {
			break
		}
	}
	return added, nil
}

// graph returns the jobs ordered by distance, and the edges between them.
func (g *graphBuilder) graph() Graph {
	graph := Graph{Jobs: []GraphJob{}, Edges: []GraphEdge{}, Truncated: g.truncated}
	slices.SortStableFunc(g.order, func(a, b *GraphJob) int { return cmp.Compare(a.Distance, b.Distance) })
	waitedFor := map[string]bool{}
	for _, node := range g.order {
		for _, to := range g.edges[node.ID] {
			if g.nodes[to] != nil {
				graph.Edges = append(graph.Edges, GraphEdge{From: node.ID, To: to})
				waitedFor[to] = true
			}
		}
	}
	for _, node := range g.order {
		node.Holds = node.Holds && waitedFor[node.ID]
		graph.Jobs = append(graph.Jobs, *node)
	}
	return graph
}
