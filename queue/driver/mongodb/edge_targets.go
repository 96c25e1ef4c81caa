package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/internal/nameset"
)

// target is the state of a job that an edge names.
type target struct{ hasEnded, succeeded bool }

// resolve finds the jobs that edges name, marks those that have not ended, and gives the
// documents their places in the line.
func (b *batch) resolve(ctx context.Context, docs []*newDocument) error {
	edges := jobSet{}
	for _, n := range docs {
		edges.add(n.Group, n.edges()...)
	}
	targets, err := b.targetsOf(ctx, edges)
	// It waits for transactions in which a target ends, as an insert does for one of the same ID. Each try
	// waits for singleLimit.
	for errors.Is(err, errBlocked) && ctx.Err() == nil {
		targets, err = b.targetsOf(ctx, edges)
	}
	if err != nil {
		return err
	}
	for _, n := range docs {
		n.refusal = b.enterLine(n, targets)
	}
	return nil
}

// jobSet is a set of job IDs by queue.
type jobSet map[string]map[string]bool

func (s jobSet) add(queue string, ids ...string) {
	if len(ids) > 0 && s[queue] == nil {
		s[queue] = map[string]bool{}
	}
	for _, id := range ids {
		s[queue][id] = true
	}
}

// awaitedBy returns the jobs that documents wait for after they were changed.
func awaitedBy(changes []*change) jobSet {
	awaited := jobSet{}
	for _, c := range changes {
		if c.landed() {
			awaited.add(c.queue, c.after.Line.Edges...)
		}
	}
	return awaited
}

// targetsOf marks the jobs that edges name, and returns their states. Those that do not exist are
// left out.
func (b *batch) targetsOf(ctx context.Context, edges jobSet) (map[key]target, error) {
	targets := map[key]target{}
	for queue, ids := range edges {
		if err := b.markTargets(ctx, queue, ids, targets); err != nil {
			return nil, fmt.Errorf("finding the jobs that edges name: %w", err)
		}
	}
	return targets, nil
}

// link makes a document wait for those of its edges that have not ended, and records those that
// have failed. It does not wait for a job that does not exist.
func (doc *document) link(targets map[key]target, now time.Time) {
	var open, failed []string
	for _, edge := range doc.edges() {
		t, there := targets[key{doc.Group, edge}]
		switch {
		case !there:
		case !t.hasEnded:
			open = append(open, edge)
		case !t.succeeded:
			failed = append(failed, edge)
		}
	}
	doc.fail(failed)
	doc.enter(nameset.Without(open, nil), now)
}

// markTargets marks existing jobs of a queue as having dependents, so that a process that
// ends one from then on updates them. A job whose attempt is replaced meanwhile has not
// ended; its next attempt is marked then.
func (b *batch) markTargets(ctx context.Context, queue string, edges map[string]bool, targets map[key]target) error {
	ids := slices.Collect(maps.Keys(edges))
	for range maxRounds {
		found, err := b.findJobs(b.session(ctx), queue, ids)
		if err != nil {
			return err
		}
		if b.tx != nil {
			// They are not marked: until the transaction ends, no process could renew their
			// leases or end them. The sweep after the commit marks them.
			for id, doc := range found {
				targets[key{queue, id}] = target{doc.final(), doc.succeeded()}
			}
			return nil
		}
		marks := make([]*change, 0, len(found))
		for _, doc := range found {
			marks = append(marks, b.mark(doc))
		}
		err = b.write(ctx, marks)
		if err != nil {
			return err
		}
		ids = nil
		for _, c := range marks {
			id := c.before.jobID()
			switch {
			case errors.Is(c.err, errGone), errors.Is(c.err, errMoved):
				ids = append(ids, id)
			case c.err != nil:
				return fmt.Errorf("marking record %q: %w", c.name, c.err)
			default:
				targets[key{queue, id}] = target{c.after.final(), c.after.succeeded()}
			}
		}
		if len(ids) == 0 {
			return nil
		}
	}
	return errContended
}

// mark is the change that marks the latest attempt of a job.
func (b *batch) mark(latest *document) *change {
	return &change{
		queue:  latest.Group,
		name:   latest.Name,
		before: latest,
		quiet:  true,
		step: func(doc *document) error {
			switch {
			case !doc.final():
				doc.Dependents = true
			case !latest.final():
				return errMoved // it ended or was replaced
			}
			return nil
		},
	}
}

// findJobs finds the latest attempts of jobs, without their bodies.
func (d *Driver) findJobs(ctx context.Context, queue string, ids []string) (map[string]*document, error) {
	found := make(map[string]*document, len(ids))
	filter := d.inQueue(queue, bson.E{Key: "job_id", Value: bson.D{{Key: "$in", Value: ids}}})
	err := d.each(ctx, filter, withoutBodies(), func(doc *document) error {
		found[doc.JobID] = doc
		return nil
	})
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return found[id] != nil })
	if len(ids) == 0 {
		return found, nil
	}
	err = d.each(ctx, d.withoutJobID(queue, ids...), withoutBodies(), func(doc *document) error {
		if other := found[doc.jobID()]; other == nil || other.RetryInfo.CurrentAttempt < doc.RetryInfo.CurrentAttempt {
			found[doc.jobID()] = doc
		}
		return nil
	})
	return found, err
}
