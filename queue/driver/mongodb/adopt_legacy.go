package mongodb

import (
	"context"
	"slices"
	"time"
)

// adoptLegacy adds this library's fields to legacy documents, in the order in which the
// documents were put. If there may be more documents, it requests another sweep, which does not
// read those that a unique index has refused.
func (d *Driver) adoptLegacy(ctx context.Context, docs []*document) error {
	if len(docs) < adoptBatch {
		d.sweeper.unadopted = nil // later sweeps try them again
	}
	if len(docs) == 0 {
		return nil
	}
	slices.SortStableFunc(docs, func(a, b *document) int { return a.TimeInfo.Created.Compare(b.TimeInfo.Created) })
	changes := make([]*change, len(docs))
	for i, doc := range docs {
		changes[i] = d.adoption(doc)
	}
	err := d.apply(ctx, changes)
	if err != nil {
		return err
	}
	if len(docs) == adoptBatch {
		for i, c := range changes {
			if c.refusal != nil && !c.landed() {
				d.sweeper.unadopted = append(d.sweeper.unadopted, docs[i].id)
			}
		}
	}
	err = eachQueue(awaitedBy(changes), func(queue string, ids map[string]bool) error { return d.checkEdges(ctx, queue, ids) })
	if err != nil {
		return err
	}
	if len(docs) == adoptBatch {
		d.sweeper.sweepMoreLegacy()
	}
	return nil
}

func (d *Driver) adoption(doc *document) *change {
	scopes := doc.scopes
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		step: func(doc *document) error {
			if !doc.isLegacy() {
				return errMoved
			}
			now := time.Now()
			doc.scopes = scopes
			doc.adopt(d.orders.next(now, 1), doc.edges(), now)
			return nil
		},
		refused: func(*document, *refusal) error { return errMoved }, // another attempt has the job's ID
	}
}
