package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsoncodec"
	"go.mongodb.org/mongo-driver/bson/bsonrw"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsideform"
)

// Body is the encoded content of a job or a dependency manager, in BSON or in JSON. In a
// document of its own format it is encoded as a document, in a document of the other
// format as a string (base64 for BSON), so it can be stored in either. A sealed body is
// what a codec made of a Body (see package codec): it is encoded as binary data in BSON,
// and as a string that no other body has in JSON. The zero Body is empty. A Body is
// immutable.
type Body struct {
	form bodyForm
	raw  []byte
}

type bodyForm uint8

const (
	bsonForm bodyForm = iota
	jsonForm
	sealedForm
)

// NewBody makes a body of the values that Raw and IsJSON of another body returned, for a store that keeps
// them separately. For a sealed body use NewSealedBody. The bytes are not checked before they are decoded,
// and must not be changed.
func NewBody(raw []byte, isJSON bool) Body {
	if isJSON {
		return Body{form: jsonForm, raw: raw}
	}
	return Body{raw: raw}
}

// NewSealedBody makes a sealed body of bytes that must not be changed.
func NewSealedBody(raw []byte) Body { return Body{form: sealedForm, raw: raw} }

// Raw returns the encoded content; nil for an empty body. It must not be changed.
func (b Body) Raw() []byte { return b.raw }

// IsJSON reports whether the content is JSON. If not, it is BSON, or sealed.
func (b Body) IsJSON() bool { return b.form == jsonForm }

// IsSealed reports whether the content is what a codec made of a body. It can't be decoded
// without the codec.
func (b Body) IsSealed() bool { return b.form == sealedForm }

// encode encodes v with its own tags. It uses codecs for BSON.
func encode(v any, f amboy.Format, codecs *bsoncodec.Registry) (body Body, err error) {
	defer recoverTo(&err)
	if f == amboy.JSON {
		return encodeJSON(v)
	}
	err = checkDepth(v)
	if err != nil {
		return Body{}, err
	}
	return encodeBSON(v, f == amboy.BSON, codecs)
}

// buffers, valueWriters and valueReaders are pooled, because making them takes as long as
// encoding or decoding a small job. After a panic they are not reused. Version 2 of the
// Mongo driver has no such pools, but its types are not the types of the contract.
//
//nolint:staticcheck // See above.
var (
	buffers      = sync.Pool{New: func() any { return &bytes.Buffer{} }}
	valueWriters = bsonrw.NewBSONValueWriterPool()
	valueReaders = bsonrw.NewBSONValueReaderPool()
)

// encodeBSON encodes nil slices and maps as empty ones if nilAsEmpty is true, otherwise as
// null.
//
//nolint:staticcheck // valueWriters is deprecated for version 2 of the Mongo driver.
func encodeBSON(v any, nilAsEmpty bool, codecs *bsoncodec.Registry) (Body, error) {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	writer := valueWriters.Get(buf)
	encoder, err := bson.NewEncoder(writer)
	if err != nil {
		return Body{}, err
	}
	err = encoder.SetRegistry(codecs)
	if err != nil {
		return Body{}, err
	}
	if nilAsEmpty {
		encoder.NilSliceAsEmpty()
		encoder.NilMapAsEmpty()
	}
	err = encoder.Encode(v)
	raw := bytes.Clone(buf.Bytes())
	valueWriters.Put(writer)
	buffers.Put(buf)
	return Body{raw: raw}, err
}

func encodeJSON(v any) (Body, error) {
	marshal := json.Marshal
	if own, ok := v.(outsideform.Form); ok {
		marshal = func(any) ([]byte, error) { return own.StoredForm() }
	}
	raw, err := marshal(v)
	if err != nil {
		return Body{}, err
	}
	return jsonBody(raw)
}

// jsonBody returns the body of valid JSON.
func jsonBody(raw []byte) (Body, error) {
	switch {
	case !isObject(raw):
		return Body{}, errors.New("must encode as a JSON object, because a string would be read as BSON")
	case isTooDeep(raw):
		return Body{}, fmt.Errorf("it is nested deeper than %d levels, and so could not be decoded", maxDepth)
	}
	return Body{form: jsonForm, raw: raw}, nil
}

// isObject reports whether a valid JSON value is an object.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}

// isDocument reports whether the bytes have the outer form of a BSON document: nothing is
// missing and nothing follows. The content is checked when it is decoded.
func isDocument(raw []byte) bool {
	length, _, ok := bsoncore.ReadLength(raw)
	return ok && int(length) == len(raw) && bytes.HasSuffix(raw, []byte{0})
}

// decode decodes the body into v. It uses codecs for BSON.
func (b Body) decode(v any, codecs *bsoncodec.Registry) (err error) {
	defer recoverTo(&err)
	switch {
	case len(b.raw) == 0:
		return errors.New("it is empty")
	case b.IsSealed():
		return errSealed
	case b.IsJSON() && !isObject(b.raw):
		return errors.New("it is not a JSON object")
	case b.IsJSON():
		if own, ok := v.(outsideform.Form); ok {
			return own.RestoreForm(b.raw)
		}
		return json.Unmarshal(b.raw, v)
	}
	err = checkRawDepth(b.raw)
	if err != nil {
		return err
	}
	return decodeBSON(b.raw, v, codecs)
}

//nolint:staticcheck // valueReaders is deprecated for version 2 of the Mongo driver.
func decodeBSON(raw []byte, v any, codecs *bsoncodec.Registry) error {
	reader := valueReaders.Get(raw)
	decoder, err := bson.NewDecoder(reader)
	if err != nil {
		return err
	}
	err = decoder.SetRegistry(codecs)
	if err != nil {
		return err
	}
	err = decoder.Decode(v)
	valueReaders.Put(reader)
	return err
}

var errSealed = errors.New("it is encoded by a codec, without which it can't be read")

// decodeMap decodes the body into a map.
func (b Body) decodeMap() (doc map[string]any, err error) {
	if !b.IsJSON() {
		err = b.decode(&doc, methodStrings)
		return doc, err
	}
	decoder := json.NewDecoder(bytes.NewReader(b.raw))
	decoder.UseNumber()
	err = decoder.Decode(&doc)
	return doc, err
}

// recoverTo stores a panic of a job type's own methods in err.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = newPanicError(value)
	}
}

func newPanicError(value any) error {
	return &amboy.PanicError{Value: value, Stack: debug.Stack()}
}

// IsZero reports whether the body is empty. Encoders use it to omit the body.
func (b Body) IsZero() bool { return len(b.raw) == 0 }

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b.IsZero():
		return []byte("null"), nil
	case b.IsJSON():
		return b.raw, nil
	case b.IsSealed():
		return json.Marshal(sealedPrefix + base64.StdEncoding.EncodeToString(b.raw))
	default:
		return json.Marshal(b.raw)
	}
}

// sealedPrefix begins the JSON string of a sealed body. It is no base64.
const sealedPrefix = "sealed:"

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		*b = Body{}
	case len(data) > 0 && data[0] == '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		text, isSealed := strings.CutPrefix(text, sealedPrefix)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("reading a body in base64: %w", err)
		}
		if isSealed {
			*b = NewSealedBody(raw)
			return nil
		}
		if !isDocument(raw) {
			return errors.New("reading a body in base64: it is not a BSON document")
		}
		*b = Body{raw: raw}
	case isObject(data):
		*b = Body{form: jsonForm, raw: bytes.Clone(data)}
	default:
		return errors.New("reading a body: want an object or a string with base64")
	}
	return nil
}

// MarshalBSONValue implements bson.ValueMarshaler.
func (b Body) MarshalBSONValue() (bsontype.Type, []byte, error) {
	switch {
	case b.IsZero():
		return bson.TypeNull, nil, nil
	case b.IsJSON():
		return bson.TypeString, bsoncore.AppendString(nil, string(b.raw)), nil
	case b.IsSealed():
		return bson.TypeBinary, bsoncore.AppendBinary(nil, bson.TypeBinaryUserDefined, b.raw), nil
	default:
		return bson.TypeEmbeddedDocument, b.raw, nil
	}
}

// UnmarshalBSONValue implements bson.ValueUnmarshaler.
func (b *Body) UnmarshalBSONValue(t bsontype.Type, data []byte) error {
	switch t {
	case bson.TypeNull:
		*b = Body{}
	case bson.TypeEmbeddedDocument:
		*b = Body{raw: bytes.Clone(data)}
	case bson.TypeString:
		text, _, ok := bsoncore.ReadString(data)
		if !ok {
			return errors.New("reading a body: the string is truncated")
		}
		raw := []byte(text)
		if !json.Valid(raw) || !isObject(raw) {
			return errors.New("reading a body: the string is not a JSON object")
		}
		*b = Body{form: jsonForm, raw: raw}
	case bson.TypeBinary:
		subtype, raw, _, ok := bsoncore.ReadBinary(data)
		if !ok || subtype != bson.TypeBinaryUserDefined {
			return fmt.Errorf("reading a body: binary data of subtype %#x is not that of a codec", subtype)
		}
		*b = NewSealedBody(bytes.Clone(raw))
	default:
		return fmt.Errorf("reading a body: want a document, a string or binary data, got a %s", t)
	}
	return nil
}
