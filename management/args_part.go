package management

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy/internal/outsideform"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// MaxSearchedArgs is the maximum length in bytes of the stored form of arguments that
// JobFilter.ArgsPart searches.
const MaxSearchedArgs = driver.MaxSearchedBody

// body returns a function that reports whether the stored form of a job has arguments that the
// filter selects; nil if the filter selects by other properties only.
func (f JobFilter) body() func(registry.Body) bool {
	if f.ArgsPart == "" {
		return nil
	}
	forms := formsOf(f.ArgsPart)
	var text []byte
	return func(body registry.Body) bool {
		if body.IsSealed() || body.IsZero() || len(body.Raw()) > MaxSearchedArgs {
			return false
		}
		var ok bool
		if text, ok = appendArgs(text[:0], body); !ok {
			return false
		}
		found := string(text)
		return slices.ContainsFunc(forms, func(form string) bool { return driver.HasPart(found, form) })
	}
}

// appendArgs appends the arguments in the stored form of a job as JSON without spaces between its
// values. It returns false if they can't be read.
func appendArgs(to []byte, body registry.Body) ([]byte, bool) {
	if !body.IsJSON() {
		if plain, ok := appendPlainArgs(to, body.Raw()); ok {
			return plain, true
		}
	}
	args, err := storedArgs(body)
	if err != nil {
		return to, false
	}
	compact := bytes.NewBuffer(to)
	err = json.Compact(compact, args)
	return compact.Bytes(), err == nil
}

// formsOf returns a part of arguments as it is, and as it is written in the strings of JSON.
func formsOf(part string) []string {
	var plain strings.Builder
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	encodes := encoder.Encode(part) == nil
	html, err := json.Marshal(part)
	forms := []string{part}
	for _, quoted := range []string{strings.TrimSuffix(plain.String(), "\n"), string(html)} {
		if form := strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`); encodes && err == nil && form != forms[len(forms)-1] {
			forms = append(forms, form)
		}
	}
	return forms
}

// appendPlainArgs is appendArgs for BSON with plain values: a search reads the arguments of most jobs
// a hundred times faster so. It returns false for other values.
func appendPlainArgs(to, raw []byte) ([]byte, bool) {
	elements, ok := elementsOf(raw)
	if !ok {
		return to, false
	}
	var args bsoncore.Value
	isDefined := true // that the job was made by a definition
	for len(elements) > 0 {
		var e bsoncore.Element
		if e, elements, ok = bsoncore.ReadElement(elements); !ok {
			return to, false
		}
		switch string(e.KeyBytes()) {
		case FieldArgs:
			args = e.Value()
		case fieldOverride:
		case fieldBytes, outsideform.Field:
			return to, false
		default:
			isDefined = false
		}
	}
	if isDefined && args.Type != 0 {
		return appendPlain(to, args)
	}
	return appendPlain(to, bsoncore.Value{Type: bson.TypeEmbeddedDocument, Data: raw})
}

// elementsOf returns the elements of a BSON document or array.
func elementsOf(raw []byte) ([]byte, bool) {
	length, _, ok := bsoncore.ReadLength(raw)
	if !ok || int(length) != len(raw) || len(raw) < 5 || raw[len(raw)-1] != 0 {
		return nil, false
	}
	return raw[4 : len(raw)-1], true
}

// appendPlain appends a BSON value as jsonOf shows it, if it is plain.
func appendPlain(to []byte, v bsoncore.Value) ([]byte, bool) {
	switch v.Type {
	case bson.TypeString:
		if len(v.Data) < 5 || v.Data[len(v.Data)-1] != 0 {
			return to, false
		}
		return appendPlainText(to, v.Data[4:len(v.Data)-1])
	case bson.TypeInt32:
		n, ok := v.Int32OK()
		return strconv.AppendInt(to, int64(n), 10), ok
	case bson.TypeInt64:
		n, ok := v.Int64OK()
		return strconv.AppendInt(to, n, 10), ok
	case bson.TypeBoolean:
		is, ok := v.BooleanOK()
		return strconv.AppendBool(to, is), ok
	case bson.TypeNull:
		return append(to, "null"...), true
	case bson.TypeArray, bson.TypeEmbeddedDocument:
		return appendPlainElements(to, v)
	default:
		return to, false
	}
}

func appendPlainElements(to []byte, v bsoncore.Value) ([]byte, bool) {
	brackets := "{}"
	if v.Type == bson.TypeArray {
		brackets = "[]"
	}
	elements, ok := elementsOf(v.Data)
	to = append(to, brackets[0])
	for first := true; ok && len(elements) > 0; first = false {
		var e bsoncore.Element
		if e, elements, ok = bsoncore.ReadElement(elements); !ok {
			break
		}
		if !first {
			to = append(to, ',')
		}
		if v.Type != bson.TypeArray {
			key := e.KeyBytes()
			if bytes.HasPrefix(key, []byte("$")) { // it may be extended JSON
				return to, false
			}
			if to, ok = appendPlainText(to, key); !ok {
				break
			}
			to = append(to, ':')
		}
		to, ok = appendPlain(to, e.Value())
	}
	return append(to, brackets[1]), ok
}

// appendPlainText appends a text that needs no escapes.
func appendPlainText(to, text []byte) ([]byte, bool) {
	isASCII := true
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return to, false
		}
		isASCII = isASCII && c < utf8.RuneSelf
	}
	if !isASCII && (!utf8.Valid(text) || bytes.ContainsAny(text, "\u2028\u2029")) {
		return to, false
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"'), true
}
