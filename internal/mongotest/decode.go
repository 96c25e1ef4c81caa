package mongotest

import (
	"reflect"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// decodeDocument decodes raw BSON into the form that matching and updates use.
func decodeDocument(raw bson.Raw) (bson.D, error) {
	doc, err := codec.Decode(raw)
	if err != nil {
		return nil, errorf(codeFailedToParse, "decoding a document: %s", err)
	}
	return doc, nil
}

// decodeValue decodes one value in the same way.
func decodeValue(raw bson.RawValue) (any, error) {
	v, err := codec.DecodeValue(raw)
	if err != nil {
		return nil, errorf(codeFailedToParse, "decoding a value: %s", err)
	}
	return v, nil
}

// decodeFields reads a document into the fields of a struct, by their bson tags. It
// returns the names that have no field in the struct.
func decodeFields(raw bson.Raw, into any) (unknown []string, err error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	to := reflect.ValueOf(into).Elem()
	fields := fieldsOf(to.Type())
	for _, element := range elements {
		i, ok := fields[element.Key()]
		if !ok {
			unknown = append(unknown, element.Key())
			continue
		}
		if err := decodeInto(to.Field(i).Addr().Interface(), element.Value()); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

// decodeInto reads a value into a field.
func decodeInto(to any, v bson.RawValue) error {
	done := false
	switch to := to.(type) {
	case *string:
		*to, done = v.StringValueOK()
	case *bool:
		*to, done = v.BooleanOK()
	case **bool:
		var b bool
		b, done = v.BooleanOK()
		*to = &b
	case *int64:
		*to, done = v.AsInt64OK()
		done = done && v.Type != bson.TypeDouble // it may not be a whole number
	case **int64:
		var n int64
		n, done = v.AsInt64OK()
		done = done && v.Type != bson.TypeDouble
		*to = &n
	case *bson.RawValue:
		*to, done = v, true
	case *bson.Raw:
		*to, done = v.DocumentOK()
	case *[]bson.Raw:
		*to, done = rawDocuments(v)
	case *bson.D, *bson.A, *any:
		decoded, err := decodeValue(v)
		if err != nil {
			return err
		}
		done = set(to, decoded)
	}
	if done {
		return nil
	}
	return v.Unmarshal(to)
}

// set sets a field to a value if the value has the field's type.
func set(to, value any) (done bool) {
	switch to := to.(type) {
	case *bson.D:
		*to, done = value.(bson.D)
	case *bson.A:
		*to, done = value.(bson.A)
	case *any:
		*to, done = value, true
	}
	return done
}

// rawDocuments returns the elements of an array of documents.
func rawDocuments(v bson.RawValue) ([]bson.Raw, bool) {
	if v.Type != bson.TypeArray {
		return nil, false
	}
	values, err := bsoncore.Document(v.Value).Elements()
	if err != nil {
		return nil, false
	}
	docs := make([]bson.Raw, len(values))
	for i, value := range values {
		doc, ok := value.Value().DocumentOK()
		if !ok {
			return nil, false
		}
		docs[i] = bson.Raw(doc)
	}
	return docs, true
}

// structs caches the fields of structs by their BSON names.
var structs = struct {
	sync.Mutex
	fields map[reflect.Type]map[string]int
}{fields: map[reflect.Type]map[string]int{}}

// fieldsOf returns the indexes of a struct's fields by their names in BSON.
func fieldsOf(t reflect.Type) map[string]int {
	structs.Lock()
	defer structs.Unlock()
	fields, ok := structs.fields[t]
	if !ok {
		fields = map[string]int{}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("bson"), ",")
			fields[name] = i
		}
		structs.fields[t] = fields
	}
	return fields
}
