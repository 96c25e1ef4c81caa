package mongodb

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// leftovers holds the results of a sweep's query.
type leftovers struct {
	settle, handovers, legacy []*document
	scopes                    scopeSet
	edges                     jobSet
	ready                     bool // a document is
	// The last scope and edge, and their numbers.
	lastScope, lastEdge   any
	scopesRead, edgesRead int
}

// sweepQuery is what a sweep reads.
type sweepQuery struct {
	legacy        bool
	everything    bool // beside legacy documents
	ready         bool // whether documents are ready
	edges, scopes bool
	committed     []string
}

func (d *Driver) findLeftovers(ctx context.Context, what sweepQuery) (*leftovers, error) {
	l := &leftovers{scopes: scopeSet{}, edges: jobSet{}}
	some := bson.D{{Key: "$limit", Value: sweepBatch}}
	bodiless := bson.D{{Key: "$project", Value: withoutJob}}
	var branches []bson.A
	if what.everything {
		branches = append(branches,
			bson.A{match(field("settle", true)), some, bodiless, project("settle", "$$ROOT")},
			bson.A{match(field("line.in", inHandover)), some, bodiless, project("handover", "$$ROOT")},
		)
	}
	// What documents wait for comes in pages, because more is read for each element.
	if what.scopes {
		branches = append(branches, bson.A{
			match(d.inAnyQueue("line.scope")),
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.scope"}})}},
			match(d.sweeper.scopes.ahead()),
			bson.D{{Key: "$sort", Value: field("_id", 1)}},
			some,
			project("scope", "$_id"),
		})
	}
	if what.edges {
		branches = append(branches, bson.A{
			match(d.inAnyQueue("line.edges")),
			bson.D{{Key: "$unwind", Value: "$line.edges"}},
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.edges"}})}},
			match(d.sweeper.awaited.ahead()),
			bson.D{{Key: "$sort", Value: field("_id", 1)}},
			some,
			project("edge", "$_id"),
		})
	}
	if len(what.committed) > 0 {
		branches = append(branches, bson.A{match(field("_id", field("$in", what.committed))), bodiless, project("committed", "$$ROOT")})
	}
	if what.everything && what.ready {
		branches = append(branches, bson.A{match(d.readyAnywhere()), bson.D{{Key: "$limit", Value: 1}}, project("ready", "$_id")})
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

// inAnyQueue returns a filter for the documents that have a field. In a store of many
// queues it matches the index, which begins with the queue.
func (d *Driver) inAnyQueue(path string) bson.D {
	if !d.opts.Grouped {
		return exists(path)
	}
	return append(field("group", field("$gte", "")), exists(path)...)
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
	return filter
}

func (l *leftovers) add(raw bson.Raw) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	if elements[0].Key() == "ready" {
		l.ready = true
		return
	}
	value := elements[0].Value().Document()
	queue, _ := value.Lookup("queue").StringValueOK()
	name, _ := value.Lookup("name").StringValueOK()
	switch elements[0].Key() {
	case "settle":
		l.settle = append(l.settle, decode(value))
	case "handover":
		l.handovers = append(l.handovers, decode(value))
	case "legacy":
		l.legacy = append(l.legacy, decode(value))
	case "committed":
		doc := decode(value)
		l.edges.add(doc.Group, doc.Line.Edges...)
	case "scope":
		l.scopes.add(queue, name)
		l.scopesRead++
		l.lastScope = slices.Clone(value)
	case "edge":
		l.edges.add(queue, name)
		l.edgesRead++
		l.lastEdge = slices.Clone(value)
	}
}
