package management

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
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
	forms := formsOf(driver.LowerPart(f.ArgsPart))
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	return func(body registry.Body) bool {
		buffer := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		return hasForm(body, forms, buffer)
	}
}

// hasForm reports whether the arguments in the stored form of a job contain one of the forms of a part.
// It uses a buffer, which it may replace.
func hasForm(body registry.Body, forms []form, buffer *[]byte) bool {
	if body.IsSealed() || body.IsZero() || len(body.Raw()) > MaxSearchedArgs {
		return false
	}
	text := (*buffer)[:0]
	if body.IsJSON() || !slices.ContainsFunc(forms, func(f form) bool { return len(f.inText) == 0 }) {
		text = driver.AppendLower(text, body.Raw())
		*buffer = text
		if !slices.ContainsFunc(forms, func(f form) bool { return f.mayBeIn(body, text) }) {
			return false
		}
	}
	text, ok := appendArgs(text[:0], body)
	*buffer = text
	if !ok {
		return false
	}
	text = driver.AppendLower(text[:0], text)
	return slices.ContainsFunc(forms, func(f form) bool { return bytes.Contains(text, f.whole) })
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
	// inText is the end of verbatim that BSON contains if one of its texts has verbatim in JSON; empty if other
	// values may have it.
	inText []byte
}

// mayBeIn returns false only if the form is not in the arguments in the stored form of a job, which is also given
// in lower case. Few jobs have to be decoded then.
func (f form) mayBeIn(body registry.Body, lower []byte) bool {
	if body.IsJSON() {
		return bytes.Contains(lower, f.verbatim)
	}
	// JSON shows bytes as base64, and sorts the options of a regular expression.
	return bytes.Contains(lower, f.inText) || mayHave(body.Raw(), bson.TypeBinary) || mayHave(body.Raw(), bson.TypeRegex)
}

// mayHave returns false only if BSON of up to MaxSearchedArgs bytes has no value of a type, or only empty ones. A
// byte before three zeros does not begin another value: it is part of a length, for instance.
func mayHave(raw []byte, kind bsontype.Type) bool {
	for {
		at := bytes.IndexByte(raw, byte(kind))
		if at < 0 {
			return false
		}
		raw = raw[at+1:]
		if !bytes.HasPrefix(raw, []byte{0, 0, 0}) {
			return true
		}
	}
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
		pieces := append(strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(`{}[]:,"\`, c) }), "")
		longest := slices.MaxFunc(pieces, func(a, b string) int { return len(a) - len(b) })
		forms = append(forms, form{whole: []byte(text), verbatim: []byte(longest), inText: []byte(inText(longest))})
	}
	return forms
}

const (
	// ofNumbers are the characters of numbers, times and ObjectIDs in JSON, in lower case.
	ofNumbers = "0123456789abcdef+-.tz"
	// ofJSON are the words of JSON and of extended JSON, in lower case.
	ofJSON = "true false null nan -infinity base64 subtype pattern options $oid $date $numberlong $numberdouble $numberdecimal " +
		"$binary $symbol $code $scope $timestamp $regularexpression $dbpointer $ref $id $minkey $maxkey $undefined"
)

// escapeEnd matches what may be the rest of an escape of JSON, in lower case.
var escapeEnd = regexp.MustCompile(`^(?:u?[0-9a-f]{1,4}|[nrtu])`)

// inText returns the end of a piece of JSON without punctuation, in lower case: BSON contains it if one of its texts
// has the piece, which may begin in an escape. It returns "" if other values may have the piece.
func inText(piece string) string {
	rest := piece[len(escapeEnd.FindString(piece)):]
	if strings.Trim(rest, ofNumbers) == "" || strings.Contains(ofJSON, rest) {
		return ""
	}
	return rest
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
		var key []byte
		var value bsoncore.Value
		if key, value, elements, ok = nextElement(elements); !ok {
			return to, false
		}
		switch string(key) {
		case FieldArgs:
			args = value
		case fieldBytes:
			payload = value
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

// nextElement splits the first element from others. It returns false if the type of its value is not
// plain, or if it is damaged.
func nextElement(elements []byte) (key []byte, value bsoncore.Value, rest []byte, ok bool) {
	end := 1 + bytes.IndexByte(elements[1:], 0)
	if end < 1 {
		return nil, value, nil, false
	}
	key, rest = elements[1:end], elements[end+1:]
	value.Type = bsontype.Type(elements[0])
	length := lengthOf(value.Type, rest)
	if length < 0 || length > len(rest) {
		return nil, value, nil, false
	}
	value.Data = rest[:length]
	return key, value, rest[length:], true
}

// lengthOf returns the length in bytes of the BSON value at the beginning of data; negative if its
// type is not plain, or if it is damaged.
func lengthOf(kind bsontype.Type, data []byte) int {
	switch kind {
	case bson.TypeNull:
		return 0
	case bson.TypeBoolean:
		return 1
	case bson.TypeInt32:
		return 4
	case bson.TypeInt64, bson.TypeDouble, bson.TypeDateTime:
		return 8
	case bson.TypeObjectID:
		return 12
	}
	length, _, ok := bsoncore.ReadLength(data)
	switch {
	case !ok:
	case kind == bson.TypeEmbeddedDocument, kind == bson.TypeArray:
		return int(length)
	case kind == bson.TypeString:
		return 4 + int(length)
	case kind == bson.TypeBinary:
		return 5 + int(length)
	}
	return -1
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
		var key []byte
		var value bsoncore.Value
		if key, value, elements, ok = nextElement(elements); !ok {
			break
		}
		if !first {
			to = append(to, ',')
		}
		if v.Type != bson.TypeArray {
			if bytes.HasPrefix(key, []byte("$")) { // it may be extended JSON
				return to, false
			}
			if to, ok = appendPlainText(to, key); !ok {
				break
			}
			to = append(to, ':')
		}
		to, ok = appendPlain(to, value)
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
	if n := plainLength(text); n < len(text) {
		return appendEscaped(append(to, text[:n]...), text[n:])
	}
	return append(append(to, text...), '"'), true
}

// plainLength returns the length of a prefix of a text that has only printable ASCII characters
// without escapes. The prefix may end up to seven characters before the first other one.
func plainLength(text []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		eight := binary.LittleEndian.Uint64(text[n:])
		controls, quotes, slashes := eight-each*' ', (eight^each*'"')-each, (eight^each*'\\')-each
		if (eight|controls|quotes|slashes)&high != 0 {
			return n
		}
	}
	for ; n < len(text); n++ {
		if c := text[n]; c >= utf8.RuneSelf || c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// appendEscaped appends the rest of a text, and the quote after it.
func appendEscaped(to, text []byte) ([]byte, bool) {
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
