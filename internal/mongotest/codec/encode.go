// Package codec encodes and decodes BSON for the server of package mongotest, whose tests spend
// much of their time on it. The types that job queues use are read and written without
// reflection. The bson package handles all other types and malformed documents.
package codec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
)

// Encode encodes a document.
func Encode(doc bson.D) (bson.Raw, error) {
	return appendDocument(make([]byte, 0, 64*len(doc)+16), doc)
}

func appendDocument(dst []byte, doc bson.D) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var err error
	for i := range doc {
		if dst, err = appendElement(dst, doc[i].Key, doc[i].Value); err != nil {
			return nil, err
		}
	}
	return endDocument(dst, start), nil
}

func appendArray[T any](dst []byte, list []T) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var err error
	for i, v := range list {
		if dst, err = appendElement(dst, strconv.Itoa(i), v); err != nil {
			return nil, err
		}
	}
	return endDocument(dst, start), nil
}

// endDocument ends a document that began at start and writes its length there.
func endDocument(dst []byte, start int) []byte {
	dst = append(dst, 0)
	appendNumber(dst[:start], uint64(len(dst)-start), 4)
	return dst
}

// appendNumber appends a little-endian integer of n bytes.
func appendNumber(dst []byte, number uint64, n int) []byte {
	for range n {
		dst = append(dst, byte(number))
		number >>= 8
	}
	return dst
}

// appendElement appends an element of a document. The type of a value precedes its name,
// so it is filled in last.
func appendElement(dst []byte, name string, v any) ([]byte, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, fmt.Errorf("the name %q contains a zero byte", name)
	}
	at := len(dst)
	dst = append(dst, 0)
	dst = append(dst, name...)
	dst = append(dst, 0)
	kind, dst, err := appendValue(dst, v)
	if err != nil {
		return nil, err
	}
	dst[at] = byte(kind)
	return dst, nil
}

// appendValue appends a value and returns its type.
func appendValue(dst []byte, v any) (kind bsontype.Type, _ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return bson.TypeNull, dst, nil
	case bool:
		return bson.TypeBoolean, bsoncore.AppendBoolean(dst, v), nil
	case int32:
		return bson.TypeInt32, appendNumber(dst, uint64(v), 4), nil
	case int64:
		return bson.TypeInt64, appendNumber(dst, uint64(v), 8), nil
	case float64:
		return bson.TypeDouble, appendNumber(dst, math.Float64bits(v), 8), nil
	case string:
		dst = appendNumber(dst, uint64(len(v)+1), 4)
		return bson.TypeString, append(append(dst, v...), 0), nil
	case primitive.DateTime:
		return bson.TypeDateTime, appendNumber(dst, uint64(v), 8), nil
	case primitive.Timestamp:
		return bson.TypeTimestamp, appendNumber(appendNumber(dst, uint64(v.I), 4), uint64(v.T), 4), nil
	case primitive.ObjectID:
		return bson.TypeObjectID, append(dst, v[:]...), nil
	case bson.D:
		if v != nil {
			dst, err = appendDocument(dst, v)
			return bson.TypeEmbeddedDocument, dst, err
		}
	case bson.A:
		if v != nil {
			dst, err = appendArray(dst, v)
			return bson.TypeArray, dst, err
		}
	case []bson.Raw:
		if v != nil {
			dst, err = appendArray(dst, v)
			return bson.TypeArray, dst, err
		}
	case bson.Raw:
		if len(v) > 0 {
			return bson.TypeEmbeddedDocument, append(dst, v...), nil
		}
	}
	// The bson package encodes all other types, and nil as null.
	kind, encoded, err := bson.MarshalValue(v)
	return kind, append(dst, encoded...), err
}
