package mongodb

import (
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/registry"
)

// update holds the changed fields of a document, or of several documents that one statement
// changes.
type update struct {
	set, unset bson.D
	// own holds the fields whose values differ between the documents.
	own  []ownValues
	ids  bson.A // of the documents, if own is not empty
	size int    // of the document, as far as known
	// leaseTime is the length of a lease that begins, or 0.
	leaseTime time.Duration
}

// ownValues holds the values of a field in the order of update.ids.
type ownValues struct {
	path   string
	values bson.A
}

// document returns the update to send: a pipeline if a lease begins, because only a
// pipeline can refer to the server's clock, or if documents have values of their own.
func (u *update) document() any {
	if u.leaseTime > 0 || len(u.own) > 0 {
		return u.pipeline()
	}
	doc := bson.D{{Key: "$set", Value: u.set}}
	if len(u.unset) > 0 {
		doc = append(doc, bson.E{Key: "$unset", Value: u.unset})
	}
	return doc
}

func (u *update) pipeline() mongo.Pipeline {
	set := make(bson.D, 0, len(u.set)+len(u.own))
	for _, e := range u.set {
		if !u.begins(e.Key) {
			set = append(set, bson.E{Key: e.Key, Value: literal(e.Value)})
		}
	}
	at := field("$indexOfArray", bson.A{literal(u.ids), "$_id"})
	for _, own := range u.own {
		if !u.begins(own.path) {
			set = append(set, bson.E{Key: own.path, Value: field("$arrayElemAt", bson.A{literal(own.values), at})})
		}
	}
	stages := mongo.Pipeline{field("$set", set)}
	if len(u.unset) > 0 {
		paths := make(bson.A, len(u.unset))
		for i, e := range u.unset {
			paths[i] = e.Key
		}
		stages = append(stages, field("$unset", paths))
	}
	if u.leaseTime > 0 {
		stages = append(stages, leaseFor(u.leaseTime))
	}
	return stages
}

// begins reports whether a field holds the beginning or the end of the lease that begins.
func (u *update) begins(path string) bool {
	return u.leaseTime > 0 && (path == leaseBegan || path == leaseEnds)
}

// literal returns the expression for a value, whatever it contains.
func literal(value any) bson.D { return field("$literal", value) }

// nested lists the embedded documents of which only the changed fields are written, so
// that a change keeps what other writers store beside them.
var nested = map[string]bool{"status": true, "time_info": true, "retry_info": true, "line": true}

// diff returns the update that turns one document into another, or nil if they are equal.
func diff(before, after *document) (*update, error) {
	was, err := bodyless(before)
	if err != nil {
		return nil, err
	}
	is, err := bodyless(after)
	if err != nil {
		return nil, err
	}
	u := &update{size: len(is) + len(after.Job.Raw())}
	err = u.compare("", was, is, before.replaced)
	if err != nil {
		return nil, err
	}
	if !after.Job.IsZero() && hashOf(after.Job) != before.body {
		u.set = append(u.set, bson.E{Key: "job", Value: after.Job})
	}
	if len(u.set)+len(u.unset) == 0 {
		return nil, nil
	}
	return u, nil
}

func bodyless(doc *document) (bson.Raw, error) {
	copied := *doc
	copied.Job = registry.Body{}
	return bson.Marshal(&copied)
}

// compare adds the fields that differ. Fields of nested documents are addressed by path,
// unless the nested document is replaced as a whole.
func (u *update) compare(prefix string, before, after bson.Raw, replaced map[string]bool) error {
	was, err := before.Elements()
	if err != nil {
		return err
	}
	is, err := after.Elements()
	if err != nil {
		return err
	}
	old := make(map[string]bson.RawValue, len(was))
	for _, e := range was {
		old[e.Key()] = e.Value()
	}
	for _, e := range is {
		name, value := e.Key(), e.Value()
		previous, there := old[name]
		delete(old, name)
		if there && previous.Equal(value) {
			continue
		}
		previousDoc, wasDoc := previous.DocumentOK()
		if doc, isDoc := value.DocumentOK(); prefix == "" && nested[name] && !replaced[name] && there && wasDoc && isDoc {
			err = u.compare(name+".", previousDoc, doc, nil)
			if err != nil {
				return err
			}
			continue
		}
		u.set = append(u.set, bson.E{Key: prefix + name, Value: value})
	}
	for _, e := range was {
		if _, gone := old[e.Key()]; gone {
			u.unset = append(u.unset, bson.E{Key: prefix + e.Key(), Value: ""})
		}
	}
	return nil
}
