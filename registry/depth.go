package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
)

// maxDepth is how deeply values may be nested in a value that is encoded as BSON or decoded from it.
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

// levelBytes is the least number of bytes that are read before the decoder of the Mongo driver
// descends to a document in another one: its type, the end of an empty key, and its length.
const levelBytes = 6

// checkRawDepth returns an error for a document that is nested too deeply. Without this check the
// decoder of the Mongo driver would overflow the stack and end the process. Most documents are too
// small for that, and are not read.
func checkRawDepth(raw []byte) error {
	if len(raw) <= levelBytes*maxDepth {
		return nil
	}
	return descendRaw(raw, 0)
}

// isTooDeep reports whether what encoding/json has encoded is nested too deeply for it to decode. Most
// values are too small for that, and are not read.
func isTooDeep(raw []byte) bool { return len(raw) > 2*maxDepth && !json.Valid(raw) }

// minDocument is the size of an empty document.
const minDocument = 5

func descendRaw(raw []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if len(raw) < minDocument || !isDocument(raw) {
		return errMalformed
	}
	for rest := raw[minDocument-1 : len(raw)-1]; len(rest) > 0; {
		element, more, ok := bsoncore.ReadElement(rest)
		if !ok {
			return errMalformed
		}
		rest = more
		value, err := element.ValueErr()
		if err != nil {
			return err
		}
		inner := value.Data
		switch value.Type {
		case bson.TypeEmbeddedDocument, bson.TypeArray:
		case bson.TypeCodeWithScope:
			if _, inner, _, ok = bsoncore.ReadCodeWithScope(value.Data); !ok {
				return errMalformed
			}
		default:
			continue
		}
		err = descendRaw(inner, depth+1)
		if err != nil {
			return err
		}
	}
	return nil
}

// errMalformed is the error of a large document that is not valid: what the decoder would make of
// it, and how deeply it would descend, is not known.
var errMalformed = errors.New("it is not a valid BSON document")

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
