package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// FuzzRequests checks that no request is answered with a 5xx status, or not in JSON.
func FuzzRequests(f *testing.F) {
	for _, target := range []string{
		"/", "", "/v1/status", "/v1/status/wait?timeout=0", "/v1/job/a%2Fb", "/v1/job/%FF", "/v1/job/..", "/v1/job/%2e%2E", "//", "/v1/job/wait/x?timeout=-1",
		"/v1/status/all", "/v1/id/status/all/type/resize", "/v1/jobs/mark_complete/status/all/pattern/%28", "/v1/jobs/list", "/v1/jobs/abort", "/v1/job/%00", "*",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			f.Add(method, target, "", "")
		}
	}
	f.Add("POST", "/v1/job/create", "application/json", form("one", ""))
	f.Add("POST", "/v1/job/create", "application/json", `{"name": "x", "type": "resize", "version": 1, "job": "AAAA", "time_info": {"created": "9999-12-31T23:59:59Z"}}`)
	f.Add("POST", "/v1/job/create", "text/plain", "{}")
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		location, err := url.ParseRequestURI("http://example.com" + target)
		if err != nil || strings.Contains(location.RawQuery, "timeout=") && !strings.HasSuffix(location.RawQuery, "timeout=0") {
			return // net/http answers itself, or the request waits long
		}
		if strings.Contains(target, "/wait") && !strings.HasSuffix(location.RawQuery, "timeout=0") {
			return
		}
		q := newQueue(t)
		require.NoError(t, q.Put(t.Context(), newResize("a/b", "")))
		s := rest.NewQueueService()
		require.NoError(t, s.SetQueue(q))
		for _, handler := range []http.Handler{
			s.Handler(),
			rest.NewManagementService(management.NewQueueManager(q)).Handler(),
			rest.NewAbortablePoolManagementService(idlePool{}).Handler(),
		} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", strings.NewReader(body))
			request.Method, request.URL, request.RequestURI = method, location, target
			request.Header.Set("Content-Type", contentType)
			recorded := httptest.NewRecorder()
			handler.ServeHTTP(recorded, request)
			assert.Less(t, recorded.Code, 500, recorded.Body.String())
			assert.GreaterOrEqual(t, recorded.Code, 200)
			assert.NotContains(t, []int{301, 302, 303, 307, 308}, recorded.Code)
			assert.True(t, json.Valid(recorded.Body.Bytes()), recorded.Body.String())
			isSecure(t, recorded.Header())
		}
	})
}

// idlePool is a pool without running jobs.
type idlePool struct{ amboy.AbortableRunner }

func (idlePool) IsRunning(string) bool { return false }
func (idlePool) RunningJobs() []string { return nil }

func (idlePool) AbortAll(context.Context) error { return nil }

// FuzzCreate checks that a body either is refused and changes nothing, or puts the job.
func FuzzCreate(f *testing.F) {
	for _, seed := range []string{
		form("one", ""), `null`, `{}`, `[]`, `{"name": "x"}`, form("one", `, "required_scopes": ["a"], "enqueue_all_scopes": true`),
		form("one", `, "retry_info": {"retryable": true, "max_attempts": -1}`), form("one", `, "unique_key": "k", "unique_until": "never"`),
		form("one", `, "time_info": {"wait_until": "2026-01-01T00:00:00Z", "dispatch_by": "2025-01-01T00:00:00Z"}`),
		form("one", `, "priority": 99999999999999999999`), form(`\u0000`, ""), form("one", `, "dependency": {"type": "always", "edges": ["one"], "dependency": {"edges": ["one"]}}`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q := newQueue(t)
		s := rest.NewQueueService()
		require.NoError(t, s.SetQueue(q))
		recorded := httptest.NewRecorder()
		s.Handler().ServeHTTP(recorded, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/job/create", strings.NewReader(string(body))))
		var answer struct {
			Registered bool   `json:"registered"`
			ID         string `json:"id"`
			Error      string `json:"error"`
		}
		require.NoError(t, json.Unmarshal(recorded.Body.Bytes(), &answer))
		assert.Equal(t, recorded.Code == http.StatusOK, answer.Registered)
		if answer.Registered {
			_, there := q.Get(t.Context(), answer.ID)
			assert.True(t, there)
			return
		}
		assert.Less(t, recorded.Code, 500, answer.Error)
		assert.NotEmpty(t, answer.Error)
		assert.Zero(t, q.Stats(t.Context()).Total)
	})
}
