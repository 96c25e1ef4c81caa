package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// ResponseError is the answer of a service that did not do what it was asked for. It
// wraps the error that the same call has in the process of the queue, where the
// answer tells it: an *management.InvalidArgumentError, or one for which
// amboy.IsJobNotFoundError, IsDuplicateJobError or IsDuplicateJobScopeError is true.
type ResponseError struct {
	// Method and URL are those of the request, without a password.
	Method, URL string
	// StatusCode is that of the answer.
	StatusCode int
	// Message says what was wrong.
	Message string
	err     error
}

// Error names the request and the status, and says what was wrong.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.URL, e.StatusCode, http.StatusText(e.StatusCode), e.Message)
}

// Unwrap returns the error that the answer tells of; nil where there is none.
func (e *ResponseError) Unwrap() error { return e.err }

// remote is a service that a client calls.
type remote struct {
	http *http.Client
	base string // the URL of its prefix
}

// maxErrorBytes is how much is read of an answer that tells of an error.
const maxErrorBytes = 64 << 10

// fill is the path of a route with its parameters, which are escaped.
func fill(route string, parameters ...string) string {
	for _, value := range parameters {
		before, after, _ := strings.Cut(route, "{}")
		route = before + escape(value) + after
	}
	return route
}

// escape makes a text one segment of a path. One that is made of dots alone would be
// taken for another directory.
func escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// call sends a request, and decodes the answer into result. An answer with another
// status than 200 is an error, unless it is one of also, which is decoded too. It
// returns the status.
func (s remote) call(ctx context.Context, method, path string, body, result any, also ...int) (status int, err error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		var encoded []byte
		encoded, err = json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("encoding a request: %w", err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.base, "/")+path, sent)
	if err != nil {
		return 0, fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.http.Do(request)
	if err != nil {
		return 0, err // which names method and URL
	}
	defer func() { _ = response.Body.Close() }() // all that matters is read by then
	wanted := response.StatusCode == http.StatusOK
	for _, code := range also {
		wanted = wanted || response.StatusCode == code
	}
	if !wanted {
		return response.StatusCode, newResponseError(response)
	}
	err = json.NewDecoder(response.Body).Decode(result)
	if err != nil {
		return response.StatusCode, fmt.Errorf("reading the answer to %s %s: %w", method, request.URL.Redacted(), err)
	}
	return response.StatusCode, nil
}

// newResponseError reads what an answer says was wrong.
func newResponseError(response *http.Response) error {
	e := &ResponseError{
		Method:     response.Request.Method,
		URL:        response.Request.URL.Redacted(),
		StatusCode: response.StatusCode,
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err != nil {
		e.Message = "the answer can't be read: " + err.Error()
		return e
	}
	var said failure
	if json.Unmarshal(body, &said) != nil || said.Text == "" {
		e.Message = strings.TrimSpace(string(body))
		return e
	}
	e.Message, e.err = said.Text, said.cause(response.StatusCode)
	return e
}

// cause is the error that the same call has in the process of the queue.
func (f *failure) cause(status int) error {
	switch {
	case status == http.StatusNotFound && f.Field == nameField:
		return amboy.NewJobNotFoundError(f.Text)
	case status == http.StatusConflict && f.Field == scopeField:
		return amboy.NewDuplicateJobScopeError(f.Text)
	case status == http.StatusConflict:
		return amboy.NewDuplicateJobError(f.Text)
	case f.Field != "" && f.Rule != "":
		return &management.InvalidArgumentError{Field: f.Field, Value: f.Value, Rule: f.Rule}
	default:
		return nil
	}
}

// newRemote has an HTTP client without a time limit, where there is none: a call ends
// with its context.
func newRemote(client *http.Client, base string) remote {
	if client == nil {
		client = &http.Client{}
	}
	return remote{http: client, base: base}
}

// notEmpty returns an error for a parameter that would not be seen in a path.
func notEmpty(field, value string) error {
	if value == "" {
		return &management.InvalidArgumentError{Field: field, Rule: "must not be empty"}
	}
	return nil
}
