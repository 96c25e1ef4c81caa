package postgres

import (
	"slices"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// findTargets finds the jobs that a job depends on, and whether it waits for any of them. If it does
// not, it also finds those that failed.
func (c *changes) findTargets(s *stored) ([]table.Target, error) {
	inOrder := slices.Sorted(slices.Values(s.Edges)) // some may be running: see sortByLease
	targets, err := table.FindTargets(inOrder, func(t *table.Target) (bool, error) { return c.findTarget(s.queue, t) })
	s.Open, s.Failed = len(table.InState(targets, table.OpenEdge)) > 0, nil
	if !s.Open {
		s.Failed = table.InState(targets, table.FailedEdge)
	}
	return targets, err
}

// findTarget finds the latest attempt of a job and locks it. If the statement waited for the lock of an
// attempt that was replaced meanwhile, it does not find the next attempt, which did not exist when the
// statement began. Then it is repeated.
func (c *changes) findTarget(queue int32, t *table.Target) (found bool, err error) {
	for {
		found, err = c.one(findTarget, func(r *row) {
			t.Seq, t.Place, t.Dependents = r.integer(), table.Place(r.integer()), r.bool()
		}, queue, t.ID)
		if found || err != nil {
			return found, err
		}
		latest, err := c.latest(queue, t.ID)
		if latest == 0 || err != nil {
			return false, err
		}
	}
}

// link stores the edges of a job, and marks its open targets as having dependents.
func (c *changes) link(j *job, targets []table.Target) {
	for _, t := range targets {
		c.exec(insertEdge, j.queue, t.ID, j.Seq, t.Place.Edge())
		if !t.Place.Final() && !t.Dependents {
			c.exec(markDependents, t.Seq)
		}
	}
}

// releaseDependents ends the edges to a job that has ended.
func (c *changes) releaseDependents(j *job) error {
	if !j.Dependents {
		return nil
	}
	return c.endEdges(j.queue, j.ID, j.Place.Edge(), 0)
}

// endEdges ends the edges to a job of the records whose seq is greater than after, up to the limit of
// a transaction. The others are left for later.
func (c *changes) endEdges(queue int32, id string, state int, after int64) error {
	most := endEdgesAtOnce - c.edgesEnded
	if most <= 0 {
		c.leave(queue, state, id, after)
		return nil
	}
	var dependents []int64
	err := c.query(endEdges, func(r *row) error {
		dependents = append(dependents, r.integer())
		return nil
	}, state, queue, id, after, most)
	if err != nil || len(dependents) == 0 {
		return err
	}
	c.edgesEnded += len(dependents)
	c.found = nil // some may have waited for this edge
	var scoped []int64
	err = c.query(closeEdges, func(r *row) error {
		seq, isPlain, due := r.integer(), r.bool(), r.time()
		if !isPlain {
			scoped = append(scoped, seq)
		}
		c.written = c.written.and(moments{due: spansOf(due)})
		return nil
	}, dependents, c.now)
	if err != nil {
		return err
	}
	c.d.floors.tallied(queue)
	for _, seq := range scoped {
		j, err := c.job(findSeq, seq)
		if err == nil && j.Place == table.Waiting {
			err = c.wait(j, c.now)
		}
		if err != nil {
			return err
		}
	}
	if len(dependents) < most {
		return nil
	}
	// The last record may have named the job twice.
	c.leave(queue, state, id, slices.Max(dependents)-1)
	return nil
}
