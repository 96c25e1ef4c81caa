package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// A document that ends while the edges of others name it is marked by the same
// write, so that whoever ends it, or the sweep where that one dies, takes the edges
// from those that wait. An Insert marks the targets of its edges first, then
// inserts, then looks whether they have ended in between.

// dependentsAtOnce is the number of documents, at most, that are told at once.
const dependentsAtOnce = 1000

// settle takes the edges that name documents which ended from those that wait for
// them, then the marks from these.
func (d *Driver) settle(ctx context.Context, ended []*document) error {
	queues := map[string][]*document{}
	for _, doc := range ended {
		queues[doc.Group] = append(queues[doc.Group], doc)
	}
	for queue, docs := range queues {
		if err := d.settleIn(ctx, queue, docs); err != nil {
			return fmt.Errorf("of queue %q: %w", queue, err)
		}
	}
	return nil
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
		if n < dependentsAtOnce {
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
				return errMoved // it was restarted, and those that wait need not wait again
			}
			doc.Settle = false
			return nil
		},
	}
}

// endEdges tells documents that jobs on which they depend have ended. It returns
// how many there were.
func (d *Driver) endEdges(ctx context.Context, queue string, succeeded map[string]bool) (int, error) {
	ids := make([]string, 0, len(succeeded))
	for id := range succeeded {
		ids = append(ids, id)
	}
	var changes []*change
	filter := d.inQueue(queue, bson.E{Key: "line.edges", Value: bson.D{{Key: "$in", Value: ids}}})
	opts := withoutBodies().SetLimit(dependentsAtOnce)
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
	return len(changes), d.apply(ctx, changes)
}
