package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsonrw"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
)

// Body is the encoded content of a job or a dependency manager, in BSON or in
// JSON. Inside a document of its own format it is a document; inside one of the
// other format it is a string (BSON in base64), so that it survives either.
// The zero Body is empty. A Body must not be changed once it is made.
type Body struct {
	isJSON bool
	raw    []byte
}

// encode encodes v with its own tags.
func encode(v any, f amboy.Format) (body Body, err error) {
	defer recoverTo(&err)
	if f == amboy.JSON {
		raw, err := json.Marshal(v)
		return Body{isJSON: true, raw: raw}, err
	}
	var buf bytes.Buffer
	writer, err := bsonrw.NewBSONValueWriter(&buf)
	if err != nil {
		return Body{}, err
	}
	encoder, err := bson.NewEncoder(writer)
	if err != nil {
		return Body{}, err
	}
	if f == amboy.BSON {
		encoder.NilSliceAsEmpty()
		encoder.NilMapAsEmpty()
	}
	if err := encoder.Encode(v); err != nil {
		return Body{}, err
	}
	return Body{raw: buf.Bytes()}, nil
}

// decode decodes the body into v.
func (b Body) decode(v any) (err error) {
	defer recoverTo(&err)
	switch {
	case len(b.raw) == 0:
		return errors.New("it is empty")
	case b.isJSON:
		return json.Unmarshal(b.raw, v)
	default:
		return bson.Unmarshal(b.raw, v)
	}
}

// decodeMap decodes the body into a map.
func (b Body) decodeMap() (doc map[string]any, err error) {
	if !b.isJSON {
		err = b.decode(&doc)
		return doc, err
	}
	decoder := json.NewDecoder(bytes.NewReader(b.raw))
	decoder.UseNumber()
	err = decoder.Decode(&doc)
	return doc, err
}

// recoverTo makes an error of a panic of a job type's own methods.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("panic: %v", value)
	}
}

// IsZero is true for an empty body. It lets encoders leave it out.
func (b Body) IsZero() bool { return len(b.raw) == 0 }

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b.IsZero():
		return []byte("null"), nil
	case b.isJSON:
		return b.raw, nil
	default:
		return json.Marshal(b.raw)
	}
}

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
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("reading a body in base64: %w", err)
		}
		*b = Body{raw: raw}
	default:
		*b = Body{isJSON: true, raw: bytes.Clone(data)}
	}
	return nil
}

// MarshalBSONValue implements bson.ValueMarshaler.
func (b Body) MarshalBSONValue() (bsontype.Type, []byte, error) {
	switch {
	case b.IsZero():
		return bsontype.Null, nil, nil
	case b.isJSON:
		return bsontype.String, bsoncore.AppendString(nil, string(b.raw)), nil
	default:
		return bsontype.EmbeddedDocument, b.raw, nil
	}
}

// UnmarshalBSONValue implements bson.ValueUnmarshaler.
func (b *Body) UnmarshalBSONValue(t bsontype.Type, data []byte) error {
	switch t {
	case bsontype.Null:
		*b = Body{}
	case bsontype.EmbeddedDocument:
		*b = Body{raw: bytes.Clone(data)}
	case bsontype.String:
		text, _, ok := bsoncore.ReadString(data)
		if !ok {
			return errors.New("reading a body: the string is cut short")
		}
		*b = Body{isJSON: true, raw: []byte(text)}
	default:
		return fmt.Errorf("reading a body: want a document or a string, and it is a %s", t)
	}
	return nil
}
