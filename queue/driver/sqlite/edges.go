package sqlite

import (
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// findTargets finds the jobs that a job depends on, and refuses the job if one is missing.
func (c *changes) findTargets(n *newRecord) (refusal, err error) {
	n.targets, refusal, err = table.FindTargets(n.ID, n.Edges, func(t *table.Target) (bool, error) {
		return c.one(findTarget, func(r *row) {
			t.Seq, t.Place, t.Dependents = r.integer(), table.Place(r.integer()), r.bool()
		}, n.queue, t.ID)
	})
	n.Open = len(table.InState(n.targets, table.OpenEdge)) > 0
	return refusal, err
}

// link stores the edges of a job, and marks its open targets as having dependents.
func (c *changes) link(n *newRecord) error {
	for _, t := range n.targets {
		if _, err := c.exec(insertEdge, n.queue, t.ID, n.Seq, t.Place.Edge()); err != nil {
			return err
		}
		if !t.Place.Final() && !t.Dependents {
			if _, err := c.exec(markDependents, t.Seq); err != nil {
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
	return c.endEdges(j.queue, j.ID, j.Place.Edge())
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
