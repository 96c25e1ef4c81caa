package registry

import (
	"reflect"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsoncodec"
	"go.mongodb.org/mongo-driver/bson/bsonrw"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy"
)

// A string kind is a type whose underlying type is string. It may have BSON methods of the
// Mongo driver, such as methods that store a hexadecimal ID as an ObjectID. In the format
// BSON the legacy library stored the value of such a type as a plain string and did not
// call the methods. BSON does the same here, so that each library can read what the other
// wrote. BSON2 calls the methods.
//
// Queues of one format also read documents of the other. A value that is not a string was
// written by the methods. A string in a document that is read as BSON is plain. A string
// in a document that is read as BSON2 is plain if the methods would have written something
// other than a string.
var (
	plainStrings  = newPlainStrings()
	methodStrings = newMethodStrings()
)

// codecsOf returns the codecs for a job in a format. The legacy library has no typed jobs,
// so their types' methods are always called.
func codecsOf(j amboy.Job, f amboy.Format) *bsoncodec.Registry {
	if _, typed := j.(amboy.ArgsJob); typed {
		return typedCodecs
	}
	return codecsFor(f)
}

func codecsFor(f amboy.Format) *bsoncodec.Registry {
	if f == amboy.BSON2 {
		return methodStrings
	}
	return plainStrings
}

// hooks are the interfaces under which the registry of the Mongo driver holds codecs for
// types with methods. The interfaces of package bson have the same methods but are other
// types.
//
//nolint:staticcheck // They are deprecated in favor of those of package bson.
var hooks = struct{ marshaler, valueMarshaler, unmarshaler, valueUnmarshaler reflect.Type }{
	reflect.TypeFor[bsoncodec.Marshaler](),
	reflect.TypeFor[bsoncodec.ValueMarshaler](),
	reflect.TypeFor[bsoncodec.Unmarshaler](),
	reflect.TypeFor[bsoncodec.ValueUnmarshaler](),
}

func newPlainStrings() *bsoncodec.Registry {
	r := bson.NewRegistry()
	r.RegisterInterfaceEncoder(hooks.marshaler, bsoncodec.ValueEncoderFunc(encodePlainString))
	r.RegisterInterfaceEncoder(hooks.valueMarshaler, bsoncodec.ValueEncoderFunc(encodePlainString))
	r.RegisterInterfaceDecoder(hooks.unmarshaler, stringDecoder(setPlainString))
	r.RegisterInterfaceDecoder(hooks.valueUnmarshaler, stringDecoder(setPlainString))
	return r
}

func newMethodStrings() *bsoncodec.Registry {
	r := bson.NewRegistry()
	r.RegisterInterfaceDecoder(hooks.unmarshaler, stringDecoder(setPlainString)) // UnmarshalBSON expects a document
	r.RegisterInterfaceDecoder(hooks.valueUnmarshaler, stringDecoder(unmarshalString))
	return r
}

// encodePlainString encodes a value of a string kind, or a pointer to one, as a string. It
// encodes other values with their methods.
func encodePlainString(ec bsoncodec.EncodeContext, w bsonrw.ValueWriter, v reflect.Value) error {
	text := v
	for text.Kind() == reflect.Pointer || text.Kind() == reflect.Interface {
		text = text.Elem() // invalid if it is nil
	}
	switch {
	case text.Kind() == reflect.String:
		return w.WriteString(text.String())
	case !text.IsValid() && v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.String:
		return w.WriteNull()
	}
	encoder, err := methods.LookupEncoder(v.Type())
	if err != nil {
		return err
	}
	return encoder.EncodeValue(ec, w, v)
}

// methods encodes and decodes as the Mongo driver does by default: it calls the BSON
// methods of a type.
var methods = bson.NewRegistry()

// stringDecoder decodes a BSON string into a value of a string kind, or a pointer to one,
// with set. It decodes everything else with the methods.
func stringDecoder(set func(into reflect.Value, text string) error) bsoncodec.ValueDecoderFunc {
	return func(dc bsoncodec.DecodeContext, r bsonrw.ValueReader, v reflect.Value) error {
		t := v.Type()
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if r.Type() != bson.TypeString || t.Kind() != reflect.String {
			decoder, err := methods.LookupDecoder(v.Type())
			if err != nil {
				return err
			}
			return decoder.DecodeValue(dc, r, v)
		}
		text, err := r.ReadString()
		if err != nil {
			return err
		}
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(t))
			}
			v = v.Elem()
		}
		return set(v, text)
	}
}

func setPlainString(into reflect.Value, text string) error {
	into.SetString(text)
	return nil
}

// unmarshalString calls UnmarshalBSONValue. If the type does not marshal as a string, the
// stored string is plain, and the method does not apply to it.
func unmarshalString(into reflect.Value, text string) error {
	err := into.Addr().Interface().(bson.ValueUnmarshaler).
		UnmarshalBSONValue(bson.TypeString, bsoncore.AppendString(nil, text))
	if err != nil {
		into.SetString(text)
	}
	stored, _, marshalErr := bson.MarshalValue(into.Addr().Interface())
	if marshalErr == nil && stored == bson.TypeString {
		return err
	}
	into.SetString(text)
	return nil //nolint:nilerr // the text is plain, so the methods do not apply
}
