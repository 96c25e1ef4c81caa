package postgres

import "github.com/mongodb/amboy/queue/driver/internal/table"

// findTargets finds the jobs that a job depends on, and whether it waits for any of them. If it does
// not, it also finds those that failed.
func (c *changes) findTargets(s *stored) ([]table.Target, error) {
	targets, err := table.FindTargets(s.Edges, func(t *table.Target) (bool, error) {
		return c.one(findTarget, func(r *row) {
			t.Seq, t.Place, t.Dependents = r.integer(), table.Place(r.integer()), r.bool()
		}, s.queue, t.ID)
	})
	s.Open, s.Failed = len(table.InState(targets, table.OpenEdge)) > 0, nil
	if !s.Open {
		s.Failed = table.InState(targets, table.FailedEdge)
	}
	return targets, err
}

// link stores the edges of a job, and marks its open targets as having dependents.
func (c *changes) link(j *job, targets []table.Target) error {
	for _, t := range targets {
		if _, err := c.exec(insertEdge, j.queue, t.ID, j.Seq, t.Place.Edge()); err != nil {
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
	var dependents []int64
	err := c.query(endEdges, func(r *row) error {
		dependents = append(dependents, r.integer())
		return nil
	}, j.Place.Edge(), j.queue, j.ID)
	if err != nil {
		return err
	}
	for _, seq := range dependents {
		err = c.endEdge(seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// endEdge lets a job continue if its last open edge has ended. Its row is not written before.
func (c *changes) endEdge(seq int64) error {
	open, err := c.one(openEdge, func(*row) {}, seq)
	if err != nil || open {
		return err
	}
	// A job that names an edge twice gets here twice, and is changed once.
	if _, err = c.exec(closeEdges, seq); err != nil {
		return err
	}
	j, err := c.job(findSeq, seq)
	if err != nil || j.Place != table.Waiting {
		return err
	}
	return c.wait(j, c.now)
}
