package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
	"github.com/mongodb/amboy/rest/internal/web"
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
	http   *http.Client
	base   string      // the URL of its prefix
	header http.Header // sent with each request
	// failed completes the error for an answer with some body. It returns false where it
	// can't.
	failed func(e *ResponseError, body []byte) bool
}

// maxErrorBytes is how much is read of an answer that tells of an error.
const maxErrorBytes = 64 << 10

// fill is the path of a route with its parameters, which are escaped.
func fill(route string, parameters ...string) string {
	for _, value := range parameters {
		before, after, _ := strings.Cut(route, "{}")
		route = before + names.Escape(value) + after
	}
	return route
}

// call sends a request, and decodes the answer into result. An answer with another
// status than 200 is an error, unless it is one of also, which is decoded too. It
// returns the status.
func (s remote) call(ctx context.Context, method, path string, body, result any, also ...int) (status int, err error) {
	response, err := s.send(ctx, method, path, "application/json", body)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // all that matters is read by then
	if response.StatusCode != http.StatusOK && !slices.Contains(also, response.StatusCode) {
		return response.StatusCode, s.newResponseError(response)
	}
	err = json.NewDecoder(response.Body).Decode(result)
	if err != nil {
		return response.StatusCode, fmt.Errorf("reading the answer to %s %s: %w", method, response.Request.URL.Redacted(), err)
	}
	return response.StatusCode, nil
}

// send sends a request. The caller closes the body of the answer.
func (s remote) send(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding a request: %w", err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.base, "/")+path, sent)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	maps.Copy(request.Header, s.header)
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return s.http.Do(request) // whose error names method and URL
}

// newResponseError reads what an answer says was wrong.
func (s remote) newResponseError(response *http.Response) error {
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return &ResponseError{
			Method:     response.Request.Method,
			URL:        response.Request.URL.Redacted(),
			StatusCode: response.StatusCode,
			Message:    redirectText(response),
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err != nil {
		body = []byte("the answer can't be read: " + err.Error())
	}
	return s.newFailure(response, body)
}

// redirectText says where a redirect leads, without what may be a secret.
func redirectText(response *http.Response) string {
	const text = "it was not done, because redirects are not followed"
	to, err := response.Location()
	if err != nil {
		return text
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return fmt.Sprintf("%s: this is a redirect to %s", text, to)
}

// newFailure is the error that a body tells of.
func (s remote) newFailure(response *http.Response, body []byte) error {
	e := &ResponseError{
		Method:     response.Request.Method,
		URL:        response.Request.URL.Redacted(),
		StatusCode: response.StatusCode,
	}
	if !s.failed(e, body) {
		e.Message = strings.TrimSpace(string(body))
	}
	return e
}

// failureError completes the error for an answer that has a failure.
func failureError(e *ResponseError, body []byte) bool {
	var said struct {
		web.Failure
		Kind web.Kind `json:"kind"`
	}
	if json.Unmarshal(body, &said) != nil || said.Text == "" {
		return false
	}
	said.Failure.Kind = said.Kind
	e.Message, e.err = said.Text, causeOf(&said.Failure, e.StatusCode)
	return true
}

// causeOf is the error that the same call has in the process of the queue.
func causeOf(f *web.Failure, status int) error {
	switch {
	case status == http.StatusNotFound && f.Field == web.NameField:
		return amboy.NewJobNotFoundError(f.Text)
	case f.Kind == web.KindDuplicateScope:
		return amboy.NewDuplicateJobScopeError(f.Text)
	case f.Kind == web.KindDuplicateJob:
		return amboy.NewDuplicateJobError(f.Text)
	case f.Field != "" && f.Rule != "":
		return &management.InvalidArgumentError{Field: f.Field, Value: f.Value, Rule: f.Rule}
	default:
		return nil
	}
}

// newRemote has an HTTP client without a time limit if client is nil: a call ends with its
// context. It follows no redirect: that would make a GET of a POST, and would take what
// authenticates the client to another port.
func newRemote(client *http.Client, base string) remote {
	own := http.Client{}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return remote{http: &own, base: base, failed: failureError}
}

// notEmpty returns an error for a parameter that would not be seen in a path.
func notEmpty(field, value string) error {
	if value == "" {
		return &management.InvalidArgumentError{Field: field, Rule: "must not be empty"}
	}
	return nil
}
