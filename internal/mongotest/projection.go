package mongotest

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// projection converts a document to the form that a client wants.
type projection func(bson.D) (bson.D, error)

// parseProjection parses a projection. It returns nil if there is none. See
// https://www.mongodb.com/docs/manual/reference/command/find/#projection.
func parseProjection(raw bson.Raw) (projection, error) {
	spec, err := decodeDocument(raw)
	if err != nil || len(spec) == 0 {
		return nil, err
	}
	return newProjection(spec)
}

// newProjection parses a projection: fields to include or to exclude, and expressions
// that compute fields besides included ones.
func newProjection(spec bson.D) (projection, error) {
	tree := &projectionNode{}
	withID, including, excluding := true, false, false
	for _, e := range spec {
		include, plain := flag(e.Value)
		switch {
		case e.Key == "_id" && plain && !include:
			withID = false
			continue
		case plain && include || !plain:
			including = including || e.Key != "_id" || !plain
		default:
			excluding = true
		}
		if including && excluding {
			return nil, errorf(codeMixedProjection, "Cannot do exclusion on field %s in inclusion projection", e.Key)
		}
		if !plain {
			if err := checkExpression(e.Value); err != nil {
				return nil, err
			}
		}
		tree.add(strings.Split(e.Key, "."), e.Value, plain)
	}
	if excluding || !including && !withID {
		return func(doc bson.D) (bson.D, error) {
			return tree.exclude(without(doc, !withID)), nil
		}, nil
	}
	if withID {
		tree.add([]string{"_id"}, true, true)
	}
	return func(doc bson.D) (bson.D, error) {
		kept := tree.include(doc)
		return tree.compute(doc, kept)
	}, nil
}

func without(doc bson.D, id bool) bson.D {
	if !id {
		return doc
	}
	return slices.DeleteFunc(slices.Clone(doc), func(e bson.E) bool { return e.Key == "_id" })
}

// flag returns the value of a projection field that includes or excludes.
func flag(v any) (include, plain bool) {
	switch bsonvalue.Rank(v) {
	case bsonvalue.RankBool, bsonvalue.RankNumber:
		return truthy(v), true
	default:
		return false, false
	}
}

// projectionNode describes the projection of one level of a document.
type projectionNode struct {
	fields   []string
	children map[string]*projectionNode
	leaf     bool
	computed bool
	value    any // the expression of a computed field
}

func (n *projectionNode) add(path []string, value any, plain bool) {
	if len(path) == 0 {
		n.leaf, n.computed, n.value = true, !plain, value
		return
	}
	child, ok := n.children[path[0]]
	if !ok {
		child = &projectionNode{}
		if n.children == nil {
			n.children = map[string]*projectionNode{}
		}
		n.children[path[0]] = child
		n.fields = append(n.fields, path[0])
	}
	child.add(path[1:], value, plain)
}

func (n *projectionNode) include(doc bson.D) bson.D {
	kept := bson.D{}
	for _, e := range doc {
		child, ok := n.children[e.Key]
		switch {
		case !ok || child.computed:
		case child.leaf:
			kept = append(kept, e)
		default:
			if v, keep := child.includeValue(e.Value); keep {
				kept = append(kept, bson.E{Key: e.Key, Value: v})
			}
		}
	}
	return kept
}

func (n *projectionNode) includeValue(v any) (any, bool) {
	switch x := v.(type) {
	case bson.D:
		return n.include(x), true
	case bson.A:
		list := bson.A{}
		for _, item := range x {
			if kept, ok := n.includeValue(item); ok {
				list = append(list, kept)
			}
		}
		return list, true
	default:
		return nil, false
	}
}

func (n *projectionNode) exclude(doc bson.D) bson.D {
	kept := bson.D{}
	for _, e := range doc {
		child, ok := n.children[e.Key]
		switch {
		case !ok:
			kept = append(kept, e)
		case !child.leaf:
			kept = append(kept, bson.E{Key: e.Key, Value: child.excludeValue(e.Value)})
		}
	}
	return kept
}

func (n *projectionNode) excludeValue(v any) any {
	switch x := v.(type) {
	case bson.D:
		return n.exclude(x)
	case bson.A:
		list := make(bson.A, len(x))
		for i, item := range x {
			list[i] = n.excludeValue(item)
		}
		return list
	default:
		return v
	}
}

// compute appends the computed fields of root to the kept fields of a level.
func (n *projectionNode) compute(root, kept bson.D) (bson.D, error) {
	for _, name := range n.fields {
		child := n.children[name]
		switch {
		case child.computed:
			v, err := evaluate(root, child.value)
			if err != nil {
				return nil, err
			}
			if bsonvalue.Rank(v) != bsonvalue.RankUndefined {
				kept = setField(kept, name, v)
			}
		case !child.leaf && child.computes():
			inner, _ := bsonvalue.Field(kept, name).(bson.D)
			computed, err := child.compute(root, inner)
			if err != nil {
				return nil, err
			}
			kept = setField(kept, name, computed)
		}
	}
	return kept, nil
}

func (n *projectionNode) computes() bool {
	for _, child := range n.children {
		if child.computed || child.computes() {
			return true
		}
	}
	return false
}

// setField returns a document with a field set, in a copy.
func setField(doc bson.D, name string, v any) bson.D {
	doc = slices.Clone(doc)
	for i := range doc {
		if doc[i].Key == name {
			doc[i].Value = v
			return doc
		}
	}
	return append(doc, bson.E{Key: name, Value: v})
}

// encodeAll encodes documents after applying a projection.
func encodeAll(docs []*document, project projection) ([]bson.Raw, error) {
	encoded := make([]bson.Raw, len(docs))
	for i, doc := range docs {
		if project == nil {
			encoded[i] = doc.raw
			continue
		}
		projected, err := project(doc.fields)
		if err != nil {
			return nil, err
		}
		result, err := newDocument(projected)
		if err != nil {
			return nil, err
		}
		encoded[i] = result.raw
	}
	return encoded, nil
}
