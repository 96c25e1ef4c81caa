package bsonvalue

import (
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// DecodeDocument decodes a document. It returns false for malformed documents and for types that
// job queues don't use.
func DecodeDocument(raw []byte) (primitive.D, bool) {
	r := reader{text: string(raw)}
	doc := r.document()
	return doc, !r.failed && r.at == len(raw)
}

// DecodeValue decodes a value of a type in the same way.
func DecodeValue(kind bsontype.Type, raw []byte) (any, bool) {
	r := reader{text: string(raw)}
	v := r.value(byte(kind))
	return v, !r.failed && r.at == len(raw)
}

// reader reads BSON. The strings that it returns share its memory. After a failure it
// returns nothing more.
type reader struct {
	text   string
	at     int
	failed bool
}

// take returns the next n bytes.
func (r *reader) take(n int) string {
	if r.failed || n < 0 || n > len(r.text)-r.at {
		r.failed = true
		return ""
	}
	part := r.text[r.at : r.at+n]
	r.at += n
	return part
}

// number reads a little-endian integer of n bytes.
func (r *reader) number(n int) uint64 {
	var number uint64
	for i, b := range []byte(r.take(n)) {
		number |= uint64(b) << (8 * i)
	}
	return number
}

// name reads a zero-terminated string.
func (r *reader) name() string {
	name := r.take(max(0, strings.IndexByte(r.text[r.at:], 0)))
	if r.take(1) != "\x00" {
		r.failed = true
	}
	return name
}

// elements visits the elements of a document. visit must read the value.
func (r *reader) elements(visit func(name string, kind byte)) {
	start := r.at
	length := int(int32(r.number(4)))
	for {
		kind := r.take(1)
		if r.failed || kind == "\x00" {
			break
		}
		visit(r.name(), kind[0])
	}
	if r.at-start != length {
		r.failed = true
	}
}

func (r *reader) document() primitive.D {
	doc := primitive.D{}
	r.elements(func(name string, kind byte) { doc = append(doc, primitive.E{Key: name, Value: r.value(kind)}) })
	return doc
}

func (r *reader) array() primitive.A {
	list := primitive.A{}
	r.elements(func(_ string, kind byte) { list = append(list, r.value(kind)) })
	return list
}

// value reads a value. It fails for types that job queues don't use.
func (r *reader) value(kind byte) any {
	switch kind {
	case byte(bson.TypeDouble):
		return math.Float64frombits(r.number(8))
	case byte(bson.TypeString):
		text, ok := strings.CutSuffix(r.take(int(int32(r.number(4)))), "\x00")
		r.failed = r.failed || !ok
		return text
	case byte(bson.TypeEmbeddedDocument):
		return r.document()
	case byte(bson.TypeArray):
		return r.array()
	case byte(bson.TypeBinary):
		size, subtype := int(int32(r.number(4))), byte(r.number(1))
		r.failed = r.failed || subtype == bson.TypeBinaryBinaryOld // has a second length
		return primitive.Binary{Subtype: subtype, Data: []byte(r.take(size))}
	case byte(bson.TypeObjectID):
		var id primitive.ObjectID
		copy(id[:], r.take(len(id)))
		return id
	case byte(bson.TypeBoolean):
		b := r.number(1)
		r.failed = r.failed || b > 1
		return b == 1
	case byte(bson.TypeDateTime):
		return primitive.DateTime(r.number(8))
	case byte(bson.TypeNull):
		return nil
	case byte(bson.TypeInt32):
		return int32(r.number(4))
	case byte(bson.TypeTimestamp):
		return primitive.Timestamp{I: uint32(r.number(4)), T: uint32(r.number(4))}
	case byte(bson.TypeInt64):
		return int64(r.number(8))
	default:
		r.failed = true
		return nil
	}
}
