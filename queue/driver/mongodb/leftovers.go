package mongodb

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// leftovers holds the results of a sweep's query.
type leftovers struct {
	settle, handovers, legacy []*document
	edges                     jobSet // of committed documents
	ready                     bool   // a document is
	// someScope and someEdge are true if documents wait for scopes and for jobs.
	someScope, someEdge bool
}

// sweepQuery is what a sweep reads.
type sweepQuery struct {
	legacy        bool
	everything    bool // except legacy documents
	ready         bool // whether documents are ready
	edges, scopes bool
	committed     []string
}

func (d *Driver) findLeftovers(ctx context.Context, what sweepQuery) (*leftovers, error) {
	l := &leftovers{edges: jobSet{}}
	some := bson.D{{Key: "$limit", Value: sweepBatch}}
	bodiless := bson.D{{Key: "$project", Value: withoutJob}}
	var branches []bson.A
	if what.everything {
		branches = append(branches,
			bson.A{match(field("settle", true)), some, bodiless, project("settle", "$$ROOT")},
			bson.A{match(field("line.in", inHandover)), some, bodiless, project("handover", "$$ROOT")},
		)
	}
	// What documents wait for is read in pages, by commands of their own.
	one := bson.D{{Key: "$limit", Value: 1}}
	if what.scopes {
		branches = append(branches, bson.A{match(d.waitsAfter(lineScope, nil)[0]), one, project("scope", "$_id")})
	}
	if what.edges {
		branches = append(branches, bson.A{match(d.waitsAfter(lineEdges, nil)[0]), one, project("edge", "$_id")})
	}
	if len(what.committed) > 0 {
		branches = append(branches, bson.A{match(field("_id", field("$in", what.committed))), bodiless, project("committed", "$$ROOT")})
	}
	if what.everything && what.ready {
		branches = append(branches, bson.A{match(d.readyAnywhere()), one, project("ready", "$_id")})
	}
	if queues := d.claimed.names(); what.legacy && len(queues) > 0 {
		branches = append(branches, bson.A{match(d.legacyDocuments(queues)), bson.D{{Key: "$limit", Value: adoptBatch}}, project("legacy", "$$ROOT")})
	}
	if len(branches) == 0 {
		return l, nil
	}
	pipeline := branches[0]
	for _, b := range branches[1:] {
		pipeline = append(pipeline, d.union(b...))
	}
	return l, d.pipe(ctx, pipeline, l.add)
}

// readyAnywhere returns a filter for the documents that a claim may take.
func (d *Driver) readyAnywhere() bson.D {
	if !d.opts.Grouped {
		return ready
	}
	return append(slices.Clone(anyQueue), ready...)
}

// legacyDocuments returns a filter for the legacy documents in some queues.
func (d *Driver) legacyDocuments(queues bson.A) bson.D {
	filter := bson.D{
		{Key: "status.completed", Value: false},
		{Key: "status.in_prog", Value: false},
		{Key: "line.in", Value: nil},
	}
	if d.opts.Grouped {
		filter = append(field("group", field("$in", queues)), filter...)
	}
	if refused := d.sweeper.unadopted; len(refused) > 0 {
		filter = append(filter, bson.E{Key: "_id", Value: field("$nin", refused)})
	}
	return filter
}

func (l *leftovers) add(raw bson.Raw) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	switch elements[0].Key() {
	case "ready":
		l.ready = true
	case "scope":
		l.someScope = true
	case "edge":
		l.someEdge = true
	default:
		l.addDocument(elements[0].Key(), decode(elements[0].Value().Document()))
	}
}

func (l *leftovers) addDocument(kind string, doc *document) {
	switch kind {
	case "settle":
		l.settle = append(l.settle, doc)
	case "handover":
		l.handovers = append(l.handovers, doc)
	case "legacy":
		l.legacy = append(l.legacy, doc)
	case "committed":
		l.edges.add(doc.Group, doc.Line.Edges...)
	}
}
