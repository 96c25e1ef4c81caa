// Package bsonvalue encodes, decodes, orders and searches BSON values for the server of package
// mongotest. All values are passed in, and none is changed.
//
// Tests of the server's users spend much of their time here, and go.test.sh compiles the package
// without the race detector, which would take most of that. So the package must not share variables
// between goroutines. Nor must it use generic functions or types, or call what does, such as
// bson.Unmarshal: it would contain a copy of their code, and the linker keeps one of all copies, for
// all packages. go tool nm shows what it contains.
package bsonvalue

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// Encoder encodes values.
type Encoder struct {
	// Other appends a value of a type that the package does not encode, and returns its BSON type.
	Other func(dst []byte, v any) (bsontype.Type, []byte, error)
}

// Document appends a document.
func (e Encoder) Document(dst []byte, doc primitive.D) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var err error
	for i := range doc {
		if dst, err = e.element(dst, doc[i].Key, doc[i].Value); err != nil {
			return nil, err
		}
	}
	return endDocument(dst, start), nil
}

func (e Encoder) array(dst []byte, list primitive.A) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var err error
	for i, v := range list {
		if dst, err = e.element(dst, strconv.Itoa(i), v); err != nil {
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

// element appends an element of a document. The type of a value precedes its name,
// so it is filled in last.
func (e Encoder) element(dst []byte, name string, v any) ([]byte, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, fmt.Errorf("the name %q contains a zero byte", name)
	}
	at := len(dst)
	dst = append(dst, 0)
	dst = append(dst, name...)
	dst = append(dst, 0)
	kind, dst, err := e.Value(dst, v)
	if err != nil {
		return nil, err
	}
	dst[at] = byte(kind)
	return dst, nil
}

// Value appends a value and returns its type.
func (e Encoder) Value(dst []byte, v any) (kind bsontype.Type, _ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return bson.TypeNull, dst, nil
	case bool:
		if v {
			return bson.TypeBoolean, append(dst, 1), nil
		}
		return bson.TypeBoolean, append(dst, 0), nil
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
	case primitive.D:
		if v != nil {
			dst, err = e.Document(dst, v)
			return bson.TypeEmbeddedDocument, dst, err
		}
	case primitive.A:
		if v != nil {
			dst, err = e.array(dst, v)
			return bson.TypeArray, dst, err
		}
	}
	return e.Other(dst, v)
}
