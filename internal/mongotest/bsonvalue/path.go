package bsonvalue

import (
	"strconv"

	"go.mongodb.org/mongo-driver/bson/primitive"
)

// Field returns the value of a top-level field, or Missing.
func Field(doc primitive.D, name string) any {
	for i := range doc {
		if doc[i].Key == name {
			return doc[i].Value
		}
	}
	return Missing
}

// Lookup finds the values that a path leads to, through arrays too: by index,
// and into each document that is an element. Of a missing field the value is Missing.
func Lookup(v any, path []string) []any {
	if len(path) == 0 {
		return []any{v}
	}
	switch x := v.(type) {
	case primitive.D:
		next := Field(x, path[0])
		if Rank(next) == RankUndefined {
			return []any{next}
		}
		return Lookup(next, path[1:])
	case primitive.A:
		var found []any
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(x) {
			found = append(found, Lookup(x[i], path[1:])...)
		}
		for _, item := range x {
			if doc, ok := item.(primitive.D); ok {
				found = append(found, Lookup(doc, path)...)
			}
		}
		return found
	default:
		return []any{Missing}
	}
}
