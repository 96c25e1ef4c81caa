package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// resize is the job type of the tests.
type resize = inspectortest.Resize

// runs maps the paths of jobs to functions that they run.
var runs = &inspectortest.Runs

func newResize(id, path string) *resize { return inspectortest.NewResize(id, path) }

// holding returns a job that runs until its context ends, and a channel that is closed when
// it starts.
func holding(t *testing.T, id string) (j *resize, began <-chan struct{}) {
	path := t.Name() + "/" + id
	begin := make(chan struct{})
	once := sync.OnceFunc(func() { close(begin) })
	runs.Store(path, func(ctx context.Context, _ *resize) {
		once()
		<-ctx.Done()
	})
	t.Cleanup(func() { runs.Delete(path) })
	return newResize(id, path), begin
}

// newYear is the time of the queues in tables.
var newYear = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// newQueue returns a queue with a fixed clock that runs jobs only when told to.
func newQueue(t testing.TB) *amboytest.Queue {
	return amboytest.NewWithOptions(t, queue.InlineOptions{Time: newYear})
}

// exchange is a request and its expected answer.
type exchange struct {
	name        string
	method      string // GET if empty
	target      string
	body        string
	contentType string
	header      http.Header
	status      int
	answer      string // JSON
	allow       string
}

// check sends the request to a handler that is mounted below a prefix.
func (e *exchange) check(t *testing.T, handler http.Handler) {
	t.Helper()
	const prefix = "/some/where"
	request := httptest.NewRequestWithContext(t.Context(), e.method, "http://example.com"+prefix+e.target, strings.NewReader(e.body))
	for key, values := range e.header {
		request.Header[key] = values
	}
	if e.contentType != "" {
		request.Header.Set("Content-Type", e.contentType)
	}
	recorded := httptest.NewRecorder()
	http.StripPrefix(prefix, handler).ServeHTTP(recorded, request)
	answer := recorded.Result()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, e.status, answer.StatusCode, string(body))
	isSecure(t, answer.Header)
	assert.Equal(t, e.allow, answer.Header.Get("Allow"))
	if e.answer != "" {
		assert.JSONEq(t, strings.ReplaceAll(e.answer, "TYPES", types(t)), string(body), string(body))
	} else {
		assert.True(t, json.Valid(body), string(body))
	}
}

func isSecure(t *testing.T, header http.Header) {
	t.Helper()
	for key, want := range map[string]string{
		"Content-Type":                 "application/json; charset=utf-8",
		"Cache-Control":                "no-store",
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	} {
		assert.Equal(t, want, header.Get(key), key)
	}
}

// types returns the registered types as JSON.
func types(t *testing.T) string {
	var names []string
	for name := range registry.JobTypeNames() {
		names = append(names, name)
	}
	encoded, err := json.Marshal(names)
	require.NoError(t, err)
	return string(encoded)
}

// within returns a context with a timeout, so that a test can't hang.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// serve serves a handler below a prefix, and returns its URL.
func serve(t testing.TB, handler http.Handler) string {
	mounted := http.NewServeMux()
	mounted.Handle("/some/where/", http.StripPrefix("/some/where", handler))
	server := httptest.NewServer(mounted)
	t.Cleanup(server.Close)
	return server.URL + "/some/where"
}
