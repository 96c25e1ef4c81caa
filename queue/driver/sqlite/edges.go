package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// checkEdges tells whether every edge names a job that is there.
func (c *changes) checkEdges(id string, edges []string) (refusal, err error) {
	for _, edge := range edges {
		target, err := c.job(findLatest, c.queue, edge)
		if err != nil {
			return nil, err
		}
		if target == nil {
			return &amboy.InvalidJobError{
				JobID: id,
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
func (c *changes) link(j *job, edges []string) error {
	for _, edge := range edges {
		target, err := c.job(findLatest, c.queue, edge)
		switch {
		case err != nil:
			return err
		case target == nil:
			return fmt.Errorf("job %q, on which job %q depends, is gone", edge, j.id)
		case target.place != finished:
			if _, err = c.exec(insertEdge, c.queue, j.id, edge); err != nil {
				return err
			}
			if _, err = c.exec(markDependents, c.queue, edge); err != nil {
				return err
			}
			j.open++
		case !target.succeeded:
			j.failed = append(j.failed, edge)
		}
	}
	return nil
}

// unlink tells the jobs that depend on a job that it ended, and makes it forget
// those that it still waited for.
func (c *changes) unlink(j *job, succeeded bool) error {
	if j.open > 0 {
		if _, err := c.exec(dropEdgesFrom, c.queue, j.id); err != nil {
			return err
		}
	}
	if !j.dependents {
		return nil
	}
	var dependents []string
	err := c.each(takeEdgesTo, func(rows *sql.Rows) error {
		var id string
		scanErr := rows.Scan(&id)
		dependents = append(dependents, id)
		return scanErr
	}, c.queue, j.id)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	for _, id := range dependents {
		err = c.endEdge(id, j.id, succeeded, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// endEdge tells a job that one on which it depends ended.
func (c *changes) endEdge(id, edge string, succeeded bool, now int64) error {
	j, err := c.job(findLatest, c.queue, id)
	if err != nil || j == nil {
		return err
	}
	j.open--
	if !succeeded {
		j.failed = append(j.failed, edge)
	}
	if _, err = c.exec(closeEdge, j.seq, j.failed); err != nil {
		return err
	}
	if j.open == 0 && j.place == waiting {
		return c.wait(j, now)
	}
	return nil
}
