package sqlite

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// An edge is a dependency of one job on another. Its row exists as long as the dependent job.
// The row of that job contains all its edges and may be large, so it is not written until
// the last of them has ended.

// The states of an edge.
const (
	openState   = 0 // the dependency has not ended
	failedState = 1 // it ended without success
	endedState  = 2 // it ended with success, or the job does not wait for it
)

// target is a job on which a new job depends.
type target struct {
	seq        int64
	id         string
	place      table.Place
	dependents bool
}

// isOpen reports whether the new job must wait for it.
func (t *target) isOpen() bool { return !t.place.Final() }

// state is the state of an edge to the target.
func (t *target) state() int {
	switch {
	case t.isOpen():
		return openState
	case t.place == table.Succeeded:
		return endedState
	default:
		return failedState
	}
}

// findTargets finds the jobs that a job depends on, and refuses the job if one is missing.
func (c *changes) findTargets(n *newRecord) (refusal, err error) {
	n.targets = make([]target, 0, len(n.Edges))
	for _, edge := range n.Edges {
		t := target{id: edge}
		found, err := c.one(findTarget, func(r *row) {
			t.seq, t.place, t.dependents = r.integer(), table.Place(r.integer()), r.bool()
		}, n.queue, edge)
		if err != nil {
			return nil, err
		}
		if !found {
			return &amboy.InvalidJobError{
				JobID: n.ID,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}, nil
		}
		n.Open = n.Open || t.isOpen()
		n.targets = append(n.targets, t)
	}
	return nil, nil
}

// failedTargets returns the targets that ended without success.
func (n *newRecord) failedTargets() (ids table.Names) {
	for _, t := range n.targets {
		if t.place.Final() && t.place != table.Succeeded {
			ids = append(ids, t.id)
		}
	}
	return ids
}

// link stores the edges of a job, and marks its open targets as having dependents.
func (c *changes) link(n *newRecord) error {
	for _, t := range n.targets {
		if _, err := c.exec(insertEdge, n.queue, t.id, n.Seq, t.state()); err != nil {
			return err
		}
		if t.isOpen() && !t.dependents {
			if _, err := c.exec(markDependents, t.seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseDependents ends the edges to a job that has ended.
func (c *changes) releaseDependents(j *job) error {
	if !j.Dependents {
		return nil
	}
	state := failedState
	if j.Place == table.Succeeded {
		state = endedState
	}
	return c.endEdges(j.queue, j.ID, state)
}

// endEdges ends the edges to a job, up to the limit of a transaction. The others are left
// for later.
func (c *changes) endEdges(queue int64, job string, state int) error {
	most := endEdgesAtOnce - c.edgesEnded
	if most <= 0 {
		return c.leaveEdges(queue, job, state)
	}
	var dependents []int64
	err := c.query(endEdges, func(r *row) error {
		dependents = append(dependents, r.integer())
		return nil
	}, state, queue, job, most)
	if err != nil {
		return err
	}
	c.edgesEnded += len(dependents)
	now := time.Now().UnixNano()
	for _, seq := range dependents {
		err = c.endEdge(seq, now)
		if err != nil {
			return err
		}
	}
	if len(dependents) == most {
		return c.leaveEdges(queue, job, state)
	}
	return nil
}

// endEdge lets a job continue if its last open edge has ended. Its row is not written
// before.
func (c *changes) endEdge(seq, now int64) error {
	open, err := c.one(openEdge, func(*row) {}, seq)
	if err != nil || open {
		return err
	}
	// A job that names an edge twice gets here twice, and is changed once.
	if _, err = c.exec(closeEdges, seq, seq); err != nil {
		return err
	}
	j, err := c.job(findSeq, seq)
	if err != nil || j.Place != table.Waiting {
		return err
	}
	return c.wait(j, now)
}
