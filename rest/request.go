package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
)

// The bounds of what a service takes.
const (
	// MaxBodyBytes is the size of the largest body of a request.
	MaxBodyBytes = 4 << 20
	// MaxWait is the longest timeout that a request may ask for.
	MaxWait = time.Hour
	// DefaultWait is the timeout of a request that asks for none.
	DefaultWait = 10 * time.Second
)

// maxParameterBytes is the length of the longest path parameter that is no ID.
const maxParameterBytes = 1024

// jobID is the ID of the job that the path of a request names.
func jobID(r *http.Request) (string, error) {
	id := r.PathValue("name")
	if !utf8.ValidString(id) {
		return "", invalid("name", fmt.Sprintf("%q", id), "must be UTF-8")
	}
	if len(id) > amboy.MaxIDLength {
		return "", invalid("name", id, fmt.Sprintf("must be at most %d bytes long, and has %d", amboy.MaxIDLength, len(id)))
	}
	return id, nil
}

// parameter is another part of the path.
func parameter(r *http.Request, name string) (string, error) {
	value := r.PathValue(name)
	if !utf8.ValidString(value) {
		return "", invalid(name, fmt.Sprintf("%q", value), "must be UTF-8")
	}
	if len(value) > maxParameterBytes {
		return "", invalid(name, value, fmt.Sprintf("must be at most %d bytes long, and has %d", maxParameterBytes, len(value)))
	}
	return value, nil
}

// timeout is how long a request wants to wait.
func timeout(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return DefaultWait, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid("timeout", text, "must be a duration such as 10s")
	}
	if wait < 0 || wait > MaxWait {
		return 0, invalid("timeout", text, fmt.Sprintf("must be from 0s to %s", MaxWait))
	}
	return wait, nil
}

// readJSON decodes the body of a request, which must be one JSON value that has no
// field that value does not have.
func readJSON(w http.ResponseWriter, r *http.Request, value any) error {
	if err := checkContentType(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		return unreadable(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return malformed(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return malformed(errors.New("something follows the JSON value"))
	}
	return nil
}

// checkContentType takes a request without one for JSON: there are clients that send
// none, and no form of a web page is sent so.
func checkContentType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil || media != "application/json" {
		f := invalid("Content-Type", given, "must be application/json")
		f.status = http.StatusUnsupportedMediaType
		return f
	}
	return nil
}

// unreadable is the failure of a body that can't be read.
func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &failure{
			status: http.StatusRequestEntityTooLarge,
			Text:   fmt.Sprintf("the body must be at most %d bytes long", tooLarge.Limit),
			Field:  "body",
		}
	}
	return &failure{status: http.StatusBadRequest, Text: "the body can't be read: " + err.Error(), Field: "body"}
}

func malformed(err error) error {
	return &failure{status: http.StatusBadRequest, Text: "the body must be a JSON object as this route takes: " + err.Error(), Field: "body"}
}
