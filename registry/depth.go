package registry

import (
	"fmt"
	"reflect"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
)

// maxDepth is how deeply values may be nested in a value that is encoded as BSON.
// encoding/json checks the same limit for JSON.
const maxDepth = 10_000

// checkDepth returns an error for a value that refers to itself or is nested too deeply.
// Without this check the encoder of the Mongo driver would overflow the stack and end the
// process.
func checkDepth(v any) error {
	if v == nil || !isRecursive(reflect.TypeOf(v)) {
		return nil
	}
	return descend(reflect.ValueOf(v), 0)
}

func descend(v reflect.Value, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it refers to itself or is nested deeper than %d levels", maxDepth)
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

// recursiveTypes caches the results of isRecursive by type.
var recursiveTypes sync.Map

// isRecursive reports whether values of a type can be nested to any depth, because the
// type contains itself or an interface.
func isRecursive(t reflect.Type) bool {
	if known, ok := recursiveTypes.Load(t); ok {
		return known.(bool)
	}
	is := containsCycle(t, map[reflect.Type]bool{})
	recursiveTypes.Store(t, is)
	return is
}

// containsCycle reports whether a type contains an interface or a type that contains
// itself. seen maps each visited type to whether it is on the current path.
func containsCycle(t reflect.Type, seen map[reflect.Type]bool) bool {
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
		back = containsCycle(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			back = back || (isEncoded(field) && containsCycle(field.Type, seen))
		}
	}
	seen[t] = false
	return back
}

// isEncoded reports whether BSON encodes a field.
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
