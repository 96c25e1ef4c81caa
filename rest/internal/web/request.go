package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy/management"
)

// MaxBodyBytes is the maximum size of the body of a request.
const MaxBodyBytes = 4 << 20

// ReadJSON decodes the body of a request, which must be a single JSON object without
// unknown fields.
func ReadJSON(w http.ResponseWriter, r *http.Request, value any) error {
	if err := checkContentType(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		return unreadable(err)
	}
	if !utf8.Valid(body) {
		// Decoding would replace invalid bytes, and so change names.
		return malformed(errors.New("not valid UTF-8"))
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return malformed(errors.New("not a JSON object"))
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return misfit(body, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return malformed(errors.New("extra data after the JSON object"))
	}
	return nil
}

// checkContentType accepts JSON that is not compressed, and a request without a content type: some
// clients send none, and a form of a web page always sends one.
func checkContentType(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		f := Invalid("Content-Encoding", coding, "must be left out: bodies are not decompressed")
		f.Status = http.StatusUnsupportedMediaType
		return f
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil || media != "application/json" {
		f := Invalid("Content-Type", given, "must be application/json")
		f.Status = http.StatusUnsupportedMediaType
		return f
	}
	return nil
}

// unreadable returns the failure for a body that can't be read.
func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &Failure{
			Status: http.StatusRequestEntityTooLarge,
			Text:   fmt.Sprintf("the body must be at most %d bytes long", tooLarge.Limit),
			Field:  bodyField,
		}
	}
	return &Failure{Status: http.StatusBadRequest, Text: "the body can't be read: " + err.Error(), Field: bodyField}
}

// bodyField is the Field of a failure that concerns the body as a whole.
const bodyField = "body"

// malformed returns the failure for a body that is not a JSON object for the route.
func malformed(err error) *Failure {
	return &Failure{
		Status: http.StatusBadRequest,
		Text:   cut("invalid JSON body: "+err.Error(), maxTextBytes),
		Field:  bodyField,
	}
}

// misfit returns the failure for a body with a wrong field or value. It names the field if
// the error does.
func misfit(body []byte, err error) error {
	var argument *management.InvalidArgumentError
	if errors.As(err, &argument) {
		return argument
	}
	f := malformed(err)
	var wrongTime *time.ParseError
	if errors.As(err, &wrongTime) {
		f.Field, f.Value, f.Rule = shortened(fieldWith(body, wrongTime.Value)), shortened(wrongTime.Value), "must be a time such as 2006-01-02T15:04:05Z"
	}
	var wrongText interface{ Invalid() (text, rule string) }
	if errors.As(err, &wrongText) {
		text, rule := wrongText.Invalid()
		f.Field, f.Value, f.Rule = shortened(fieldWith(body, text)), shortened(text), rule
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		f.Field, f.Value, f.Rule = withoutEmbedded(wrongType.Field), shortened(wrongType.Value), "must be a value of type "+wrongType.Type.String()
	}
	if quoted, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		if name, unquoted := strconv.Unquote(quoted); unquoted == nil {
			f.Field, f.Rule = shortened(name), "is unknown"
		}
	}
	return f
}

// withoutEmbedded removes embedded structs from a path to a field, because they don't appear
// in JSON. Unlike the JSON names used here, their names begin with an upper-case letter.
func withoutEmbedded(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), func(name string) bool {
		return name != "" && 'A' <= name[0] && name[0] <= 'Z'
	}), ".")
}

// fieldWith returns the path to the field of a body that contains a text.
func fieldWith(body []byte, text string) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return bodyField
	}
	if path := pathTo(fields, text); path != "" {
		return path
	}
	return bodyField
}

func pathTo(fields map[string]any, text string) string {
	for name, value := range fields {
		switch value := value.(type) {
		case string:
			if value == text {
				return name
			}
		case map[string]any:
			if path := pathTo(value, text); path != "" {
				return name + "." + path
			}
		}
	}
	return ""
}
