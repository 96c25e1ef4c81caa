package sqlite

import (
	"time"

	"github.com/mongodb/amboy"
)

// An edge is a row for as long as its job is. The row of a job is written when the
// last of its edges has ended, and not before: it has all its edges, and may be
// large.

// The states of an edge.
const (
	openState   = 0 // it is waited for
	failedState = 1 // it ended without success
	endedState  = 2 // it ended with success, or is not waited for
)

// target is a job on which one depends that is not stored yet.
type target struct {
	seq        int64
	id         string
	place      place
	dependents bool
}

// isOpen is true of one for which the other must wait.
func (t *target) isOpen() bool { return !t.place.final() }

// state is that of an edge which names it.
func (t *target) state() int {
	switch {
	case t.isOpen():
		return openState
	case t.place == succeeded:
		return endedState
	default:
		return failedState
	}
}

// findTargets finds those that a job's edges name, which must be there.
func (c *changes) findTargets(n *newRecord) (refusal, err error) {
	n.targets = make([]target, 0, len(n.edges))
	for _, edge := range n.edges {
		t := target{id: edge}
		found, err := c.one(findTarget, func(r *row) {
			t.seq, t.place, t.dependents = r.integer(), place(r.integer()), r.bool()
		}, n.queue, edge)
		if err != nil {
			return nil, err
		}
		if !found {
			return &amboy.InvalidJobError{
				JobID: n.id,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}, nil
		}
		n.open = n.open || t.isOpen()
		n.targets = append(n.targets, t)
	}
	return nil, nil
}

// failedTargets are those that ended without success.
func (n *newRecord) failedTargets() (ids names) {
	for _, t := range n.targets {
		if t.place.final() && t.place != succeeded {
			ids = append(ids, t.id)
		}
	}
	return ids
}

// link makes a job known to those on which it depends.
func (c *changes) link(n *newRecord) error {
	for _, t := range n.targets {
		if _, err := c.exec(insertEdge, n.queue, t.id, n.seq, t.state()); err != nil {
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

// tellDependents tells the jobs that depend on a job that it ended.
func (c *changes) tellDependents(j *job) error {
	if !j.dependents {
		return nil
	}
	state := failedState
	if j.place == succeeded {
		state = endedState
	}
	return c.endEdges(j.queue, j.id, state)
}

// endEdges ends the edges to a job, as many as the transaction may. The others are left
// for later.
func (c *changes) endEdges(queue int64, job string, state int) error {
	most := tellAtOnce - c.told
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
	c.told += len(dependents)
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

// endEdge lets a job go on, one of whose edges ended, where it was the last. Its
// row is not touched before.
func (c *changes) endEdge(seq, now int64) error {
	open, err := c.one(openEdge, func(*row) {}, seq)
	if err != nil || open {
		return err
	}
	// A job that names an edge twice comes here twice, and is changed once.
	if _, err = c.exec(closeEdges, seq, seq); err != nil {
		return err
	}
	j, err := c.job(findSeq, seq)
	if err != nil || j.place != waiting {
		return err
	}
	return c.wait(j, now)
}
