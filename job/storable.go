package job

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// marshalers are the interfaces of types that encode themselves.
var marshalers = []reflect.Type{
	reflect.TypeFor[json.Marshaler](),
	reflect.TypeFor[encoding.TextMarshaler](),
	reflect.TypeFor[bson.Marshaler](),
	reflect.TypeFor[bson.ValueMarshaler](),
}

// unstorable returns a type within t that no format can encode or decode; nil if there is
// none. It can't check values behind an interface without methods.
func unstorable(t reflect.Type) reflect.Type {
	return findUnstorable(t, map[reflect.Type]bool{})
}

func findUnstorable(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] || encodesItself(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return t
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return t // a decoder does not know which type to create
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findUnstorable(t.Elem(), seen)
	case reflect.Struct:
		for field := range fieldsOf(t) {
			if bad := findUnstorable(field.Type, seen); bad != nil {
				return bad
			}
		}
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(marshalers, func(m reflect.Type) bool {
		return t.Implements(m) || reflect.PointerTo(t).Implements(m)
	})
}

// fieldsOf yields the fields of a struct that are encoded in any format.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			field := t.Field(i)
			left := field.Tag.Get("json") == "-" || field.Tag.Get("bson") == "-"
			if (field.IsExported() || field.Anonymous) && !left && !yield(field) {
				return
			}
		}
	}
}
