package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
	"github.com/mongodb/amboy/rest/internal/web"
)

// ResponseError is the error for an answer of a service that refused a request. If the
// answer allows it, it wraps the error that the same call returns in the process of the
// queue: an *management.InvalidArgumentError, a *management.StateError,
// management.ErrUnknownQueue, management.ErrUnsupported, or an error for which
// amboy.IsJobNotFoundError, IsDuplicateJobError or IsDuplicateJobScopeError is true, and
// errors.As finds an *amboy.DuplicateJobError.
type ResponseError struct {
	// Method and URL are those of the request. The URL contains no password.
	Method, URL string
	// StatusCode is the status of the answer.
	StatusCode int
	// Message describes the error.
	Message string
	err     error
}

// Error names the request and the status, and describes the error.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.URL, e.StatusCode, http.StatusText(e.StatusCode), e.Message)
}

// Unwrap returns the error in the answer; nil if it contains none.
func (e *ResponseError) Unwrap() error { return e.err }

// remote is a service that a client calls.
type remote struct {
	http   *http.Client
	base   string      // the URL of its prefix
	header http.Header // sent with each request
	// failed completes the error from the body of an answer. It returns false if it can't
	// decode the body.
	failed func(e *ResponseError, body []byte) bool
}

// maxErrorBytes is the maximum number of bytes that are read of an answer with an error.
const maxErrorBytes = 64 << 10

// routePath returns the path of a route with its parameters, which it escapes.
func routePath(route string, parameters ...string) string {
	for _, value := range parameters {
		before, after, _ := strings.Cut(route, "{}")
		route = before + names.Escape(value) + after
	}
	return route
}

// call sends a request, and decodes the answer into result. An answer whose status is
// neither 200 nor one of also is an error. It returns the status.
func (s remote) call(ctx context.Context, method, path string, body, result any, also ...int) (status int, err error) {
	response, err := s.send(ctx, method, path, "application/json", body)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // the answer was read by then
	if response.StatusCode != http.StatusOK && !slices.Contains(also, response.StatusCode) {
		return response.StatusCode, s.newResponseError(response)
	}
	err = s.notAPage(response)
	if err != nil {
		return response.StatusCode, err
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
	return s.http.Do(request) // its error contains the method and URL
}

// newResponseError returns the error that an answer describes.
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
		body = []byte("the response can't be read: " + err.Error())
	}
	return s.newFailure(response, body)
}

// redirectText describes a redirect, without the parts of the URL that may be secret.
func redirectText(response *http.Response) string {
	const text = "the request was redirected, and redirects are not followed"
	to, err := response.Location()
	if err != nil {
		return text
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return fmt.Sprintf("%s: the location is %s; if that is a login, the session has expired", text, to)
}

// notAPage returns an error if an answer that should be of the API is an HTML page, such as the
// login of a proxy.
func (s remote) notAPage(response *http.Response) error {
	if !isHTML(response) {
		return nil
	}
	return s.newResponseError(response)
}

func isHTML(response *http.Response) bool {
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/html")
}

var (
	pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	spaces    = regexp.MustCompile(`\s+`)
)

// pageText describes an HTML page in one line.
func pageText(page []byte) string {
	const text = "the answer is an HTML page, not one of the API"
	title := ""
	if found := pageTitle.FindSubmatch(page); found != nil {
		title = strings.TrimSpace(spaces.ReplaceAllString(html.UnescapeString(string(found[1])), " "))
	}
	const maxTitle = 100
	if title == "" || len(title) > maxTitle {
		return text
	}
	return fmt.Sprintf("%s: %q", text, title)
}

// newFailure returns the error that the body of an answer describes.
func (s remote) newFailure(response *http.Response, body []byte) error {
	e := &ResponseError{
		Method:     response.Request.Method,
		URL:        response.Request.URL.Redacted(),
		StatusCode: response.StatusCode,
	}
	if !s.failed(e, body) {
		e.Message = strings.TrimSpace(string(body))
		if isHTML(response) {
			e.Message = pageText(body)
			if response.StatusCode == http.StatusOK {
				e.Message += "; if it is a login, the session has expired"
			}
		}
	}
	return e
}

// failureError completes the error from a body that contains a Failure.
func failureError(e *ResponseError, body []byte) bool {
	var decoded struct {
		web.Failure
		Kind web.Kind `json:"kind"`
	}
	if json.Unmarshal(body, &decoded) != nil || decoded.Text == "" {
		return false
	}
	decoded.Failure.Kind = decoded.Kind
	e.Message, e.err = decoded.Text, causeOf(&decoded.Failure, e.StatusCode)
	return true
}

// causeOf returns the error that the same call returns in the process of the queue.
func causeOf(f *web.Failure, status int) error {
	switch {
	case status == http.StatusNotFound && f.Field == web.NameField:
		return amboy.NewJobNotFoundError(f.Text)
	case f.Kind == web.KindDuplicateScope, f.Kind == web.KindDuplicateJob:
		return duplicateError(f.Kind, f.Text, f.Duplicate)
	case f.Field != "" && f.Rule != "":
		return &management.InvalidArgumentError{Field: f.Field, Value: f.Value, Rule: f.Rule}
	default:
		return nil
	}
}

// newRemote returns a remote. If client is nil, it uses an HTTP client without a timeout: a
// call ends with its context. It follows no redirects, because a redirect could turn a POST
// into a GET, and send credentials to another port.
func newRemote(client *http.Client, base string) remote {
	own := http.Client{}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return remote{http: &own, base: base, failed: failureError}
}

// notEmpty returns an error for an empty parameter, which would vanish from a path.
func notEmpty(field, value string) error {
	if value == "" {
		return &management.InvalidArgumentError{Field: field, Rule: "must not be empty"}
	}
	return nil
}
