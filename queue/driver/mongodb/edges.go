package mongodb

import (
	"context"
	"errors"
	"fmt"
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
	succeeded := make(map[string]bool, len(ended))
	unmark := make([]*change, len(ended))
	for i, doc := range ended {
		succeeded[doc.jobID()] = doc.succeeded()
		unmark[i] = d.unmark(doc)
	}
	for {
		n, err := d.endEdges(ctx, queue, succeeded)
		if err != nil {
			return err
		}
		if n < dependentsBatch {
			return d.write(ctx, unmark)
		}
	}
}

func (d *Driver) unmark(doc *document) *change {
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		quiet:  true,
		step: func(doc *document) error {
			if !doc.final() {
				return errMoved // it was restarted; its dependents do not wait again
			}
			doc.Settle = false
			return nil
		},
	}
}

// endEdges updates documents whose dependencies have ended. It returns the number of
// documents.
func (d *Driver) endEdges(ctx context.Context, queue string, succeeded map[string]bool) (int, error) {
	ids := make([]string, 0, len(succeeded))
	for id := range succeeded {
		ids = append(ids, id)
	}
	var changes []*change
	filter := d.inQueue(queue, bson.E{Key: "line.edges", Value: bson.D{{Key: "$in", Value: ids}}})
	opts := withoutBodies().SetLimit(dependentsBatch)
	err := d.each(ctx, filter, opts, func(doc *document) error {
		changes = append(changes, &change{
			queue:  queue,
			name:   doc.Name,
			before: doc,
			step: func(doc *document) error {
				if len(doc.Line.Edges) == 0 {
					return errMoved
				}
				doc.endEdges(succeeded, time.Now())
				return nil
			},
		})
		return nil
	})
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	if err := d.apply(ctx, changes); err != nil {
		return len(changes), err
	}
	for _, c := range changes {
		if c.err != nil && !errors.Is(c.err, errMoved) && !errors.Is(c.err, errGone) {
			return len(changes), fmt.Errorf("record %q: %w", c.name, c.err)
		}
	}
	return len(changes), nil
}
