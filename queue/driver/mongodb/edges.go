package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// If a document ends while edges of other documents name it, the same write marks it. The
// process that ends it, or the sweep if that process dies, then removes these edges from
// the waiting documents. An Insert marks the targets of its edges, inserts, and then
// checks whether they have ended in between.

// dependentsBatch is the maximum number of dependents that are updated in one write.
const dependentsBatch = 1000

// settle removes the edges to ended documents from the documents that wait for them, then
// removes the marks of the ended documents.
func (d *Driver) settle(ctx context.Context, ended []*document) error {
	queues := map[string][]*document{}
	for _, doc := range ended {
		queues[doc.Group] = append(queues[doc.Group], doc)
	}
	return eachQueue(queues, func(queue string, docs []*document) error {
		if err := d.settleIn(ctx, queue, docs); err != nil {
			return fmt.Errorf("settling queue %q: %w", queue, err)
		}
		return nil
	})
}

func (d *Driver) settleIn(ctx context.Context, queue string, ended []*document) error {
	ids := make([]string, len(ended))
	unmark := make([]*change, len(ended))
	for i, doc := range ended {
		ids[i] = doc.jobID()
		unmark[i] = d.unmark(doc)
	}
	if err := d.endEdges(ctx, queue, ids); err != nil {
		return err
	}
	return d.write(ctx, unmark)
}

func (d *Driver) unmark(ended *document) *change {
	return &change{
		queue:  ended.Group,
		name:   ended.Name,
		before: ended,
		quiet:  true,
		step: func(doc *document) error {
			if !doc.final() || doc.Order != ended.Order {
				return errMoved // it was restarted; the dependents that it has now are not these
			}
			doc.Settle = false
			return nil
		},
	}
}

// endEdges removes the edges to jobs from the documents that wait for them, if these jobs have
// ended or are gone.
func (d *Driver) endEdges(ctx context.Context, queue string, ids []string) error {
	for len(ids) > 0 {
		dependents, err := d.dependentsOf(ctx, queue, ids)
		if err != nil || len(dependents) == 0 {
			return err
		}
		// The jobs may have been restarted, and these dependents too.
		succeeded, err := d.outcomes(ctx, queue, ids)
		if err != nil {
			return err
		}
		if err := d.removeEdges(ctx, queue, dependents, succeeded); err != nil {
			return err
		}
		if len(dependents) < dependentsBatch {
			return nil
		}
		ids = slices.Collect(maps.Keys(succeeded))
	}
	return nil
}

// dependentsOf finds documents that wait for jobs, as many as one write updates.
func (d *Driver) dependentsOf(ctx context.Context, queue string, ids []string) (dependents []*document, err error) {
	filter := d.inQueue(queue, bson.E{Key: "line.edges", Value: bson.D{{Key: "$in", Value: ids}}})
	err = d.each(ctx, filter, withoutBodies().SetLimit(dependentsBatch), func(doc *document) error {
		dependents = append(dependents, doc)
		return nil
	})
	return dependents, err
}

// outcomes reports whether jobs have succeeded, of those that have ended. One that is gone keeps
// no other waiting.
func (d *Driver) outcomes(ctx context.Context, queue string, ids []string) (succeeded map[string]bool, err error) {
	found, err := d.findJobs(ctx, queue, ids)
	if err != nil {
		return nil, err
	}
	succeeded = map[string]bool{}
	for _, id := range ids {
		if doc := found[id]; doc == nil || doc.final() {
			succeeded[id] = doc == nil || doc.succeeded()
		}
	}
	return succeeded, nil
}

// removeEdges removes the edges to ended jobs from dependents that were found before the outcomes of
// the jobs were.
func (d *Driver) removeEdges(ctx context.Context, queue string, dependents []*document, succeeded map[string]bool) error {
	changes := make([]*change, len(dependents))
	for i, dependent := range dependents {
		changes[i] = &change{
			queue:  queue,
			name:   dependent.Name,
			before: dependent,
			step: func(doc *document) error {
				if len(doc.Line.Edges) == 0 || doc.Order != dependent.Order {
					return errMoved // if it was restarted, its edges are others
				}
				doc.endEdges(succeeded, time.Now())
				return nil
			},
		}
	}
	if err := d.apply(ctx, changes); err != nil {
		return err
	}
	for _, c := range changes {
		if c.err != nil && !errors.Is(c.err, errMoved) && !errors.Is(c.err, errGone) {
			return fmt.Errorf("record %q: %w", c.name, c.err)
		}
	}
	return nil
}
