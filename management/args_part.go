package management

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
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
// filter selects; nil if the filter selects by other properties only. It is not safe for concurrent
// use.
func (f JobFilter) body() func(registry.Body) bool {
	if f.ArgsPart == "" {
		return nil
	}
	forms := formsOf(driver.LowerPart(f.ArgsPart))
	var text []byte
	return func(body registry.Body) bool {
		if body.IsSealed() || body.IsZero() || len(body.Raw()) > MaxSearchedArgs {
			return false
		}
		if body.IsJSON() {
			text = driver.AppendLower(text[:0], body.Raw())
			if !slices.ContainsFunc(forms, func(f form) bool { return bytes.Contains(text, f.verbatim) }) {
				return false
			}
		}
		var ok bool
		if text, ok = appendArgs(text[:0], body); !ok {
			return false
		}
		text = driver.AppendLower(text[:0], text)
		return slices.ContainsFunc(forms, func(f form) bool { return bytes.Contains(text, f.whole) })
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

// form is a form of a part of arguments.
type form struct {
	whole []byte
	// verbatim is the longest piece without punctuation. JSON with the whole form contains it,
	// whatever the spaces between its values.
	verbatim []byte
}

// formsOf returns a part of arguments as it is, and as it is written in the strings of JSON. Letters
// are in lower case.
func formsOf(part string) []form {
	texts := []string{part}
	for _, escapeHTML := range []bool{false, true} {
		var quoted strings.Builder
		encoder := json.NewEncoder(&quoted)
		encoder.SetEscapeHTML(escapeHTML)
		if encoder.Encode(part) == nil {
			texts = append(texts, strings.TrimSuffix(strings.TrimPrefix(quoted.String(), `"`), "\"\n"))
		}
	}
	forms := make([]form, 0, len(texts))
	for _, text := range slices.Compact(texts) {
		pieces := append(strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(`{}[]:,"`, c) }), "")
		longest := slices.MaxFunc(pieces, func(a, b string) int { return len(a) - len(b) })
		forms = append(forms, form{whole: []byte(text), verbatim: []byte(longest)})
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
	var args, payload bsoncore.Value
	isDefined, isOutside := true, false // that the job was made by a definition, or is for outside workers
	for len(elements) > 0 {
		var e bsoncore.Element
		if e, elements, ok = bsoncore.ReadElement(elements); !ok {
			return to, false
		}
		switch string(e.KeyBytes()) {
		case FieldArgs:
			args = e.Value()
		case fieldBytes:
			payload = e.Value()
		case outsideform.Field:
			isOutside = true
		case fieldOverride:
		default:
			isDefined = false
		}
	}
	if isOutside && payload.Type != 0 {
		args = payload
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
	case bson.TypeDouble:
		f, ok := v.DoubleOK()
		return appendPlainDouble(to, f), ok && !math.IsNaN(f) && !math.IsInf(f, 0)
	case bson.TypeDateTime:
		ms, ok := v.DateTimeOK()
		at := time.UnixMilli(ms).UTC()
		to = append(at.AppendFormat(append(to, '"'), time.RFC3339Nano), '"')
		return to, ok && 0 <= at.Year() && at.Year() <= 9999
	case bson.TypeObjectID:
		id, ok := v.ObjectIDOK()
		return append(hex.AppendEncode(append(to, `{"$oid":"`...), id[:]), `"}`...), ok
	case bson.TypeBinary:
		subtype, data, ok := v.BinaryOK()
		return append(base64.StdEncoding.AppendEncode(append(to, '"'), data), '"'), ok && subtype == bson.TypeBinaryGeneric
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

// appendPlainDouble appends a finite number.
func appendPlainDouble(to []byte, f float64) []byte {
	from := len(to)
	to = strconv.AppendFloat(to, f, 'G', -1, 64)
	if !bytes.ContainsAny(to[from:], ".E") {
		to = append(to, ".0"...)
	}
	return to
}

// plainEscapes are the usual escapes in the strings of JSON.
var plainEscapes = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't'}

// appendPlainText appends a text with no other escapes than plainEscapes.
func appendPlainText(to, text []byte) ([]byte, bool) {
	to = append(to, '"')
	isASCII, start := true, 0
	for i, c := range text {
		switch {
		case c >= utf8.RuneSelf:
			isASCII = false
		case c >= ' ' && c != '"' && c != '\\':
		case plainEscapes[c] == 0:
			return to, false
		default:
			to = append(append(to, text[start:i]...), '\\', plainEscapes[c])
			start = i + 1
		}
	}
	if !isASCII && (!utf8.Valid(text) || bytes.ContainsAny(text, "\u2028\u2029")) {
		return to, false
	}
	return append(append(to, text[start:]...), '"'), true
}
