package mongodb

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// nameRivals completes the refusals of documents by a unique index with the IDs of the jobs
// in their way. A rival that is gone by now stays unnamed.
func (b *batch) nameRivals(ctx context.Context, docs []*newDocument) {
	var refused []*newDocument
	for _, n := range docs {
		if n.refusal != nil && n.clash != nil {
			refused = append(refused, n)
		}
	}
	if len(refused) == 0 {
		return
	}
	rivals, err := b.findRivals(ctx, refused, func(*document) {})
	for _, n := range refused {
		switch r := rivals[n]; {
		case r != nil:
			n.refusal = r.errorOf(n.document)
		case err != nil:
			n.refusal = fmt.Errorf("%w (reading the job in its way: %w)", n.refusal, err)
		}
	}
}

// findRivals reads the documents that have the name, job ID or unique key of the given ones,
// or one of their scopes, and returns the first refusal that each of these causes. It calls
// found with each document that it reads, which may be one of another queue with the same _id.
func (b *batch) findRivals(ctx context.Context, docs []*newDocument, found func(*document)) (map[*newDocument]*refusal, error) {
	byQueue := map[string][]*newDocument{}
	for _, n := range docs {
		byQueue[n.Group] = append(byQueue[n.Group], n)
	}
	own := map[string]int64{}
	for _, n := range b.docs {
		own[n.id] = n.Order
	}
	rivals := map[*newDocument]*refusal{}
	for queue, some := range byQueue {
		err := b.each(ctx, b.rivalFilter(queue, some), withoutBodies(), func(doc *document) error {
			found(doc)
			order, isOwn := own[doc.id]
			for _, n := range some {
				if isOwn && order == doc.Order && order > n.Order {
					continue // It was stored in place of the refused one, and after it.
				}
				if r := n.refusedBy(doc); r != nil && (rivals[n] == nil || n.rank(r) < n.rank(rivals[n])) {
					rivals[n] = r
				}
			}
			return nil
		})
		if err != nil {
			return rivals, err
		}
	}
	return rivals, nil
}

// rivalFilter returns a filter whose clauses each use a unique index.
func (b *batch) rivalFilter(queue string, docs []*newDocument) bson.D {
	var names, ids, keys, scopes bson.A
	for _, n := range docs {
		names = append(names, n.id)
		ids = append(ids, n.JobID)
		if n.UniqueLock != "" {
			keys = append(keys, n.UniqueLock)
		}
		for _, scope := range n.Scopes {
			scopes = append(scopes, scope)
		}
	}
	or := bson.A{field("_id", field("$in", names))}
	for index, values := range map[uniqueIndex]bson.A{byJobID: ids, byUniqueKey: keys, byScope: scopes} {
		if len(values) > 0 {
			or = append(or, b.inQueue(queue, bson.E{Key: string(index), Value: field("$in", values)}))
		}
	}
	return field("$or", or)
}

// refusedBy returns the first refusal of a document because of another one, or nil.
func (n *newDocument) refusedBy(doc *document) *refusal {
	switch {
	case doc.Group != n.Group:
		return nil
	case doc.Name == n.Name:
		return &refusal{index: byName, value: n.Name, holder: doc.jobID()}
	case doc.JobID == n.JobID:
		return &refusal{index: byJobID, value: n.JobID, holder: doc.jobID()}
	case n.UniqueLock != "" && doc.UniqueLock == n.UniqueLock:
		return &refusal{index: byUniqueKey, value: n.UniqueLock, holder: doc.jobID()}
	}
	for _, scope := range n.Scopes {
		if slices.Contains(doc.Scopes, scope) {
			return &refusal{index: byScope, value: scope, holder: doc.jobID()}
		}
	}
	return nil
}

// rank orders the refusals of a document as amboy.DuplicateReason is ordered.
func (n *newDocument) rank(r *refusal) int {
	order := []uniqueIndex{byName, byJobID, byUniqueKey, byScope}
	rank := slices.Index(order, r.index)
	if r.index == byScope {
		rank += slices.Index(n.Scopes, r.value)
	}
	return rank
}
