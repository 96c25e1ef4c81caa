// Package codec encodes and decodes BSON for the server of package mongotest, whose tests spend
// much of their time on it. Package bsonvalue reads and writes the types that job queues use,
// without reflection. The bson package handles all other types and malformed documents.
package codec

import (
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// Encode encodes a document.
func Encode(doc bson.D) (bson.Raw, error) {
	return encoder.Document(make([]byte, 0, 64*len(doc)+16), doc)
}

var encoder bsonvalue.Encoder

func init() { encoder.Other = appendOther } // which uses encoder

// appendOther appends raw documents, and what the bson package encodes: all other types, and nil as
// null.
func appendOther(dst []byte, v any) (bsontype.Type, []byte, error) {
	switch v := v.(type) {
	case []bson.Raw:
		if v != nil {
			list := make(bson.A, len(v))
			for i, raw := range v {
				list[i] = raw
			}
			return encoder.Value(dst, list)
		}
	case bson.Raw:
		if len(v) > 0 {
			return bson.TypeEmbeddedDocument, append(dst, v...), nil
		}
	}
	kind, encoded, err := bson.MarshalValue(v)
	return kind, append(dst, encoded...), err
}

// Decode decodes a document. Without data it is empty.
func Decode(raw bson.Raw) (bson.D, error) {
	if len(raw) == 0 {
		return bson.D{}, nil
	}
	if doc, ok := bsonvalue.DecodeDocument(raw); ok {
		return doc, nil
	}
	doc := bson.D{}
	err := bson.Unmarshal(raw, &doc)
	return doc, err
}

// DecodeValue decodes a value. Without a type it is undefined.
func DecodeValue(raw bson.RawValue) (any, error) {
	if raw.Type == 0 {
		return primitive.Undefined{}, nil
	}
	if v, ok := bsonvalue.DecodeValue(raw.Type, raw.Value); ok {
		return v, nil
	}
	var v any
	err := raw.Unmarshal(&v)
	return v, err
}
