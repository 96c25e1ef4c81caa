package mongotest

import (
	"math"
	"reflect"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
)

// The tests spend much of their time reading and writing BSON. So the types that job
// queues use are read and written here, without reflection. The bson package handles all
// other types and malformed documents.

// decodeDocument decodes raw BSON into the form that matching and updates use.
func decodeDocument(raw bson.Raw) (bson.D, error) {
	if len(raw) == 0 {
		return bson.D{}, nil
	}
	r := reader{text: string(raw)}
	if doc := r.document(); !r.failed && r.at == len(raw) {
		return doc, nil
	}
	doc := bson.D{}
	if err := bson.Unmarshal(raw, &doc); err != nil {
		return nil, errorf(codeFailedToParse, "decoding a document: %s", err)
	}
	return doc, nil
}

// decodeValue decodes one value in the same way.
func decodeValue(raw bson.RawValue) (any, error) {
	if raw.Type == 0 {
		return primitive.Undefined{}, nil
	}
	r := reader{text: string(raw.Value)}
	if v := r.value(byte(raw.Type)); !r.failed && r.at == len(raw.Value) {
		return v, nil
	}
	var v any
	if err := raw.Unmarshal(&v); err != nil {
		return nil, errorf(codeFailedToParse, "decoding a value: %s", err)
	}
	return v, nil
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

func (r *reader) document() bson.D {
	doc := bson.D{}
	r.elements(func(name string, kind byte) { doc = append(doc, bson.E{Key: name, Value: r.value(kind)}) })
	return doc
}

func (r *reader) array() bson.A {
	list := bson.A{}
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

// structs caches the fields of structs by their BSON names. It is not a sync.Map, so that
// the server can be compiled without the race detector: otherwise sync.Map's generic code
// would be compiled without it for all other packages too.
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
