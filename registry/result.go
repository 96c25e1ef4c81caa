package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
)

// resultField is the field of the document in which a result is stored. A result may be a
// value that is not a document itself.
const (
	resultField = "value"
	resultBegin = `{"` + resultField + `":`
)

// resultDocument is that document.
type resultDocument struct {
	Value any `bson:"value" json:"value"`
}

// encodeResult encodes a job's result; nil if it has none.
func encodeResult(j amboy.Job, f amboy.Format) (*Body, error) {
	left, ok := j.(amboy.ResultJob)
	if !ok {
		return nil, nil
	}
	value := left.Result()
	if value == nil {
		return nil, nil
	}
	var body Body
	var err error
	if raw, ok := value.(*json.RawMessage); ok && raw != nil && len(*raw) > 0 && f == amboy.JSON {
		body, err = encodeJSONResult(*raw)
	} else {
		body, err = encode(resultDocument{value}, f, typedCodecs)
	}
	if err != nil {
		return nil, &EncodeError{JobID: j.ID(), Type: j.Type().Name, Format: f, Field: "result", Value: value, Err: err}
	}
	return &body, nil
}

// encodeJSONResult encodes a result that is JSON already.
func encodeJSONResult(value json.RawMessage) (Body, error) {
	doc := bytes.NewBuffer(make([]byte, 0, len(value)+len(resultBegin)+1))
	doc.WriteString(resultBegin)
	if err := json.Compact(doc, value); err != nil {
		return Body{}, err
	}
	doc.WriteByte('}')
	return jsonBody(doc.Bytes())
}

// decodeResult decodes a job's result into the value that a pointer refers to.
func (b *Body) decodeResult(into any) (err error) {
	defer recoverTo(&err)
	if b.IsSealed() {
		return wrapResult(errSealed)
	}
	if b.IsJSON() {
		var doc map[string]json.RawMessage
		err = json.Unmarshal(b.raw, &doc)
		if err == nil && doc[resultField] == nil {
			err = errNoResultField
		}
		if err == nil {
			err = json.Unmarshal(doc[resultField], into)
		}
		return wrapResult(err)
	}
	if err = checkRawDepth(b.raw); err != nil {
		return wrapResult(err)
	}
	value, err := bson.Raw(b.raw).LookupErr(resultField)
	if err == nil {
		err = value.Unmarshal(into)
	}
	return wrapResult(err)
}

var errNoResultField = errors.New("the document has no field " + resultField)

func wrapResult(err error) error {
	if err != nil {
		return fmt.Errorf("decoding the result: %w", err)
	}
	return nil
}
