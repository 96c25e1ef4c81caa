package sqlite

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// checkEdges tells whether every edge names a job that is there.
func (c *changes) checkEdges(j *job) (refusal, err error) {
	for _, edge := range j.edges {
		target, err := c.latest(j.queue, edge)
		if err != nil {
			return nil, err
		}
		if target == nil {
			return &amboy.InvalidJobError{
				JobID: j.id,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}, nil
		}
	}
	return nil, nil
}

// link counts the edges of a job that is not stored yet and that have not ended,
// lists those that failed, and makes the job known to the others.
func (c *changes) link(j *job) error {
	for _, edge := range j.edges {
		target, err := c.latest(j.queue, edge)
		switch {
		case err != nil:
			return err
		case target == nil:
			return fmt.Errorf("job %q, on which job %q depends, is gone", edge, j.id)
		case !target.place.final():
			if _, err = c.exec(insertEdge, j.queue, j.id, edge); err != nil {
				return err
			}
			if _, err = c.exec(markDependents, target.seq); err != nil {
				return err
			}
			j.open++
		case target.place != succeeded:
			j.failed = append(j.failed, edge)
		}
	}
	return nil
}

// unlink tells the jobs that depend on a job that it ended, and makes it forget
// those that it still waited for.
func (c *changes) unlink(j *job) error {
	if j.open > 0 {
		if _, err := c.exec(dropEdgesFrom, j.queue, j.id); err != nil {
			return err
		}
	}
	if !j.dependents {
		return nil
	}
	var dependents []string
	err := c.query(takeEdgesTo, func(r *row) error {
		dependents = append(dependents, r.text())
		return nil
	}, j.queue, j.id)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	for _, id := range dependents {
		err = c.endEdge(id, j, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// endEdge tells a job that one on which it depends ended.
func (c *changes) endEdge(id string, edge *job, now int64) error {
	j, err := c.latest(edge.queue, id)
	if err != nil || j == nil {
		return err
	}
	j.open--
	if edge.place != succeeded {
		j.failed = append(j.failed, edge.id)
	}
	if _, err = c.exec(closeEdge, j.failed, j.seq); err != nil {
		return err
	}
	if j.open == 0 && j.place == waiting {
		return c.wait(j, now)
	}
	return nil
}
