package registry

import (
	"fmt"
	"reflect"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
)

// maxDepth is how deep values may be nested in one that is encoded as BSON. That of
// JSON is the same, and checked by encoding/json.
const maxDepth = 10_000

// checkDepth returns an error for a value that refers to itself, or is nested too
// deep. The encoder of the Mongo driver would not, but end the process.
func checkDepth(v any) error {
	if v == nil || !isRecursive(reflect.TypeOf(v)) {
		return nil
	}
	return descend(reflect.ValueOf(v), 0)
}

func descend(v reflect.Value, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it refers to itself, or is nested deeper than %d levels", maxDepth)
	}
	if !v.IsValid() || !isRecursive(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return descend(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := descend(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if err := descend(entries.Value(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !isEncoded(v.Type().Field(i)) {
				continue
			}
			if err := descend(v.Field(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// recursive has the types that isRecursive was asked about, with the answers.
var recursive sync.Map

// isRecursive is true for a type whose values may be nested to any depth: one that
// leads back to itself, or to an interface.
func isRecursive(t reflect.Type) bool {
	if known, ok := recursive.Load(t); ok {
		return known.(bool)
	}
	is := leadsBack(t, map[reflect.Type]bool{})
	recursive.Store(t, is)
	return is
}

// leadsBack tells whether a type leads to an interface or, having been seen, to itself.
func leadsBack(t reflect.Type, seen map[reflect.Type]bool) bool {
	onPath, ok := seen[t]
	if ok || encodesItself(t) {
		return onPath
	}
	seen[t] = true
	back := false
	switch t.Kind() {
	case reflect.Interface:
		back = true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		back = leadsBack(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			back = back || (isEncoded(field) && leadsBack(field.Type, seen))
		}
	}
	seen[t] = false
	return back
}

// isEncoded is false for a field that BSON leaves out.
func isEncoded(field reflect.StructField) bool {
	return (field.IsExported() || field.Anonymous) && field.Tag.Get("bson") != "-"
}

var (
	marshaler      = reflect.TypeFor[bson.Marshaler]()
	valueMarshaler = reflect.TypeFor[bson.ValueMarshaler]()
)

func encodesItself(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && (t.Implements(marshaler) || t.Implements(valueMarshaler))
}
