package registry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"go.mongodb.org/mongo-driver/bson/bsoncodec"
	"go.mongodb.org/mongo-driver/bson/bsonrw"
)

// An opaque type is a struct without exported fields that has methods for text or JSON, such as
// netip.Addr and big.Int. The Mongo driver does not call these methods, and stores an empty document. In
// the arguments and results of typed jobs only the zero value may be stored so, which an empty document
// stands for. Of other jobs the legacy library stored the same.
var typedCodecs = newTypedCodecs()

func newTypedCodecs() *bsoncodec.Registry {
	r := newMethodStrings()
	r.RegisterKindEncoder(reflect.Struct, bsoncodec.ValueEncoderFunc(encodeStruct))
	return r
}

func encodeStruct(ec bsoncodec.EncodeContext, w bsonrw.ValueWriter, v reflect.Value) error {
	if isOpaque(v.Type()) && !v.IsZero() {
		return fmt.Errorf("BSON would store a %s without its content: it has no exported fields, and methods only for text or JSON", v.Type())
	}
	encoder, err := methods.LookupEncoder(v.Type())
	if err != nil {
		return err
	}
	return encoder.EncodeValue(ec, w, v)
}

// opaque caches the results of isOpaque by type.
var opaque sync.Map

func isOpaque(t reflect.Type) bool {
	if known, ok := opaque.Load(t); ok {
		return known.(bool)
	}
	found := t.NumField() > 0 && !hasExportedField(t) && encodesAsText(reflect.PointerTo(t))
	opaque.Store(t, found)
	return found
}

// hasExportedField also counts fields with the tag "-".
func hasExportedField(t reflect.Type) bool {
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() || field.Anonymous {
			return true
		}
	}
	return false
}

// encodesAsText reports whether a type has methods for text or JSON, but not for BSON.
func encodesAsText(t reflect.Type) bool {
	return !encodesItself(t) &&
		(t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || t.Implements(reflect.TypeFor[json.Marshaler]()))
}
