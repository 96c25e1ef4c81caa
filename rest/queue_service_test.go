package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// form returns the interchange form of a job that a client sends.
func form(id, more string) string {
	return `{"name": "` + id + `", "type": "resize", "version": 1, "job": {"path": "cat.png"}` + more + `}`
}

// newService returns a service and its queue, with the jobs "done", which has succeeded,
// "failed", which has failed, and "tonight/ü", which waits.
func newService(t *testing.T) (*rest.QueueService, amboy.Queue) {
	q := newQueue(t)
	runs.Store("bad", func(_ context.Context, j *resize) { j.AddError(assert.AnError) })
	t.Cleanup(func() { runs.Delete("bad") })
	tonight := newResize("tonight/ü", "dog.png")
	tonight.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: newYear.Add(time.Hour)})
	tonight.SetScopes([]string{"dog"})
	tonight.SetEnqueueAllScopes(true)
	require.NoError(t, q.PutMany(t.Context(), []amboy.Job{newResize("done", "cat.png"), newResize("failed", "bad"), tonight}))
	require.Equal(t, 2, q.RunAll(t.Context()))
	s := rest.NewQueueService()
	require.NoError(t, s.SetQueue(q))
	return s, q
}

const status = `{"string": "ok", "queue_running": true, "pending_jobs": 1, "supported_job_types": TYPES}`

func TestQueueService(t *testing.T) {
	const create = "/v1/job/create"
	created := func(id string) string {
		return `{"registered": true, "queue_depth": 2, "id": "` + id + `", "error": "", "status": ` + strings.Replace(status, "1", "2", 1) + `}`
	}
	refused := func(id, text, field string) string {
		return `{"registered": false, "queue_depth": 1, "id": "` + id + `", "error": "` + text + `", "status": ` + status + `, "field": "` + field + `"}`
	}
	unknown := `{"job_exists": false, "completed": false, "id": "nobody", "jobs_pending": 1, "error": "job \"nobody\" does not exist", "job": null}`
	for _, e := range []exchange{
		{name: "root", target: "/", status: 200, answer: status},
		{name: "status", target: "/v1/status", status: 200, answer: status},
		{name: "status, HEAD", method: "HEAD", target: "/v1/status", status: 200, answer: status},
		{name: "wait for all", target: "/v1/status/wait?timeout=0s", status: 408, answer: status},
		{name: "job", target: "/v1/job/done", status: 200},
		{name: "unknown job", target: "/v1/job/nobody", status: 404, answer: `{"error": "job \"nobody\" does not exist", "field": "name"}`},
		{name: "status of a job", target: "/v1/job/status/done", status: 200},
		{name: "status of an unknown job", target: "/v1/job/status/nobody", status: 400, answer: unknown},
		{name: "waiting for a job", target: "/v1/job/wait/done?timeout=10s", status: 200},
		{name: "waiting for a job that waits", target: "/v1/job/wait/tonight%2F%C3%BC?timeout=0", status: 408},
		{name: "waiting for an unknown job", target: "/v1/job/wait/nobody?timeout=10s", status: 400, answer: unknown},
		{name: "create", method: "POST", target: create, body: form("new", ""), contentType: "application/json", status: 200, answer: created("new")},
		{name: "create, charset", method: "POST", target: create, body: form("a/b ü", ""), contentType: "application/json; charset=utf-8", status: 200, answer: created("a/b ü")},
		{name: "create, no type", method: "POST", target: create, body: form("new", ""), status: 200, answer: created("new")},
		{
			name: "create, with the status of a finished job", method: "POST", target: create, status: 200, answer: created("new"),
			body: form("new", `, "status": {"completed": true, "owner": "me", "errors": ["no"]}, "group": "other", "retry_info": {"retryable": true, "needs_retry": true, "current_attempt": 7, "base_job_id": "x"}`),
		},
		{name: "create, taken", method: "POST", target: create, body: form("done", ""), status: 400},
		{
			name: "create, scope", method: "POST", target: create, status: 400,
			body: form("new", `, "required_scopes": ["dog"], "enqueue_all_scopes": true`),
		},
		{name: "create, no ID", method: "POST", target: create, body: form("", ""), status: 400, answer: refused("", `name must not be empty (is \"\")`, "name")},
		{name: "create, long ID", method: "POST", target: create, body: form(strings.Repeat("x", amboy.MaxIDLength+1), ""), status: 400},
		{name: "create, no such type", method: "POST", target: create, body: `{"name": "x", "type": "y"}`, status: 400, answer: refused("x", `type \"y\" of job \"x\" is not registered`, "type")},
		{name: "create, version", method: "POST", target: create, body: `{"name": "x", "type": "resize", "version": 2, "job": {}}`, status: 400},
		{name: "create, no job", method: "POST", target: create, body: `{"name": "x", "type": "resize", "version": 1}`, status: 400},
		{name: "create, job", method: "POST", target: create, body: `{"name": "x", "type": "resize", "version": 1, "job": {"path": 7}}`, status: 400},
		{name: "create, times", method: "POST", target: create, body: form("x", `, "time_info": {"max_time": -1}`), status: 400},
		{name: "create, empty scope", method: "POST", target: create, body: form("x", `, "required_scopes": [""]`), status: 400},
		{name: "create, depends on itself", method: "POST", target: create, body: form("x", `, "dependency": {"type": "always", "version": 0, "edges": ["y"], "dependency": {"edges": ["y"]}}`), status: 400},
		{name: "create, dependency", method: "POST", target: create, body: form("x", `, "dependency": {"type": "never", "dependency": {}}`), status: 400},
		{name: "create, unknown field", method: "POST", target: create, body: form("x", `, "more": 1`), status: 400},
		{name: "create, malformed", method: "POST", target: create, body: `{`, status: 400},
		{name: "create, no body", method: "POST", target: create, status: 400},
		{name: "create, null", method: "POST", target: create, body: `null`, status: 400},
		{name: "create, list", method: "POST", target: create, body: `[]`, status: 400},
		{name: "create, two values", method: "POST", target: create, body: form("x", "") + `{}`, status: 400},
		{name: "create, too large", method: "POST", target: create, body: `{"name": "` + strings.Repeat("x", rest.MaxBodyBytes), status: 413},
		{name: "create, too deep", method: "POST", target: create, body: form("x", `, "metadata": `+strings.Repeat("[", 100_000)), status: 400},
		{name: "create, form of a page", method: "POST", target: create, body: form("x", ""), contentType: "application/x-www-form-urlencoded", status: 415},
		{name: "create, plain", method: "POST", target: create, body: form("x", ""), contentType: "text/plain", status: 415},
		{name: "create, malformed type", method: "POST", target: create, body: form("x", ""), contentType: ";;", status: 415},
		{name: "complete", method: "POST", target: "/v1/jobs/mark_complete/id/tonight%2F%C3%BC", status: 200, answer: `{"message": "marked the job complete", "job_name": "tonight/ü"}`},
		{name: "complete, unknown", method: "POST", target: "/v1/jobs/mark_complete/id/nobody", status: 404},

		{name: "timeout, malformed", target: "/v1/status/wait?timeout=soon", status: 400, answer: `{"error": "timeout must be a duration such as 10s (is \"soon\")", "field": "timeout", "value": "soon", "rule": "must be a duration such as 10s"}`},
		{name: "timeout, negative", target: "/v1/job/wait/done?timeout=-1s", status: 400},
		{name: "timeout, long", target: "/v1/job/wait/done?timeout=1000000000h", status: 400},
		{name: "ID, not UTF-8", target: "/v1/job/%FF", status: 400},
		{name: "ID, long", target: "/v1/job/" + strings.Repeat("x", amboy.MaxIDLength+1), status: 400},
		{name: "ID, slashes", target: "/v1/job/a/b/c", status: 404},
		{name: "ID, none", target: "/v1/job/", status: 404},
		{name: "no such route", target: "/v2", status: 404, answer: `{"error": "no such resource"}`},
		{name: "slash", target: "/v1/status/", status: 404},
		{name: "dots", target: "/v1/../v1/status", status: 404},
		{name: "two slashes", target: "/v1//status", status: 404},
		{name: "method", method: "DELETE", target: "/v1/status", status: 405, allow: "GET, HEAD", answer: `{"error": "method DELETE is not allowed here"}`},
		{name: "GET create", target: create, status: 404}, // "create" is taken as a job ID
		{name: "PUT create", method: "PUT", target: create, status: 405, allow: "GET, HEAD, POST"},
		{name: "another site", method: "POST", target: create, body: form("x", ""), header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403, answer: `{"error": "cross-site request refused"}`},
		{name: "same site", method: "POST", target: create, body: form("x", ""), header: http.Header{"Sec-Fetch-Site": {"same-site"}}, status: 403},
		{name: "another origin", method: "POST", target: create, body: form("x", ""), header: http.Header{"Origin": {"http://evil.example"}}, status: 403},
		{name: "null origin", method: "POST", target: create, body: form("x", ""), header: http.Header{"Origin": {"null"}}, status: 403},
		{name: "own origin", method: "POST", target: create, body: form("new", ""), header: http.Header{"Origin": {"http://example.com"}}, status: 200, answer: created("new")},
		{name: "another site reads", target: "/v1/status", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 200},
	} {
		t.Run(e.name, func(t *testing.T) {
			s, q := newService(t)
			e.check(t, s.Handler())
			total := 3
			if e.method == http.MethodPost && e.status == http.StatusOK && e.target == create {
				total++
			}
			assert.Equal(t, total, q.Stats(t.Context()).Total)
			for info := range q.JobInfo(t.Context()) {
				if info.Status.Completed {
					assert.Contains(t, []string{"done", "failed", "tonight/ü"}, info.ID)
				}
			}
		})
	}
}

// TestQueueServiceJob checks the complete interchange form.
func TestQueueServiceJob(t *testing.T) {
	s, _ := newService(t)
	job := `{
		"name": "tonight/ü", "type": "resize", "version": 1,
		"status": {"owner": "", "completed": false, "in_progress": false, "mod_time": "0001-01-01T00:00:00Z", "mod_count": 0, "err_count": 0},
		"enqueue_scopes": ["dog"], "enqueue_all_scopes": true, "required_scopes": ["dog"],
		"retry_info": {"start": "0001-01-01T00:00:00Z", "end": "0001-01-01T00:00:00Z"},
		"time_info": {"created": "2026-01-01T00:00:00Z", "start": "0001-01-01T00:00:00Z", "end": "0001-01-01T00:00:00Z", "wait_until": "2026-01-01T01:00:00Z", "dispatch_by": "0001-01-01T00:00:00Z"},
		"dependency": {"type": "always", "version": 0, "edges": [], "dependency": {"type": {"name": "always", "version": 0}, "edges": []}},
		"job": {"path": "dog.png", "job_base": {"name": "tonight/ü", "job_type": {"name": "resize", "version": 1}, "required_scopes": ["dog"]}}
	}`
	get := exchange{target: "/v1/job/tonight%2F%C3%BC", status: 200, answer: job}
	get.check(t, s.Handler())
	look := exchange{target: "/v1/job/status/tonight%2F%C3%BC", status: 200, answer: `{"job_exists": true, "completed": false, "id": "tonight/ü", "jobs_pending": 1, "error": "", "job": ` + job + `}`}
	look.check(t, s.Handler())
}

func TestQueueServiceWithoutAQueue(t *testing.T) {
	s := rest.NewQueueService()
	assert.Nil(t, s.Queue())
	for _, e := range []exchange{
		{target: "/v1/status", status: 200, answer: `{"string": "degraded", "queue_running": false, "pending_jobs": 0, "supported_job_types": TYPES}`},
		{target: "/v1/status/wait", status: 503},
		{target: "/v1/job/one", status: 503},
		{target: "/v1/job/status/one", status: 503},
		{target: "/v1/job/wait/one", status: 503},
		{method: "POST", target: "/v1/job/create", body: form("x", ""), status: 503},
		{method: "POST", target: "/v1/jobs/mark_complete/id/one", status: 503},
	} {
		t.Run(e.target, func(t *testing.T) { e.check(t, s.Handler()) })
	}
	require.Error(t, s.SetQueue(nil))
	s.Close() // does nothing
}

// TestQueueServiceByReference checks that jobs by reference are not read while they may run.
func TestQueueServiceByReference(t *testing.T) {
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	s := rest.NewQueueService()
	require.NoError(t, s.SetQueue(q))
	held, began := holding(t, "held")
	require.NoError(t, q.PutMany(t.Context(), []amboy.Job{newResize("done", ""), held}))
	<-began
	for _, e := range []exchange{
		{target: "/v1/job/done", status: 200},
		{target: "/v1/job/held", status: 409},
		{target: "/v1/job/status/held", status: 200, answer: `{"job_exists": true, "completed": false, "id": "held", "jobs_pending": 0, "error": "", "job": null}`},
	} {
		t.Run(e.target, func(t *testing.T) { e.check(t, s.Handler()) })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	q.Close(ended)
}

func TestQueueServiceOpen(t *testing.T) {
	s := rest.NewQueueService()
	require.NoError(t, s.Open(t.Context()))
	require.ErrorIs(t, s.Open(t.Context()), amboy.ErrAlreadyStarted)
	require.ErrorIs(t, s.SetQueue(s.Queue()), amboy.ErrAlreadyStarted)
	create := exchange{method: "POST", target: "/v1/job/create", body: form("one", ""), status: 200}
	create.check(t, s.Handler())
	wait := exchange{target: "/v1/job/wait/one?timeout=10s", status: 200}
	wait.check(t, s.Handler())
	all := exchange{target: "/v1/status/wait?timeout=10s", status: 200, answer: strings.Replace(status, "1", "0", 1)}
	all.check(t, s.Handler())
	s.Close()
	s.Close()
	closed := exchange{method: "POST", target: "/v1/job/create", body: form("two", ""), status: 503}
	closed.check(t, s.Handler())
}

// TestQueueServiceOpenStarted checks that Close does not close a queue that the program started.
func TestQueueServiceOpenStarted(t *testing.T) {
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	s := rest.NewQueueService()
	require.NoError(t, s.SetQueue(q))
	require.NoError(t, s.Open(t.Context()))
	s.Close()
	require.NoError(t, q.Put(t.Context(), newResize("one", "")))
}

func TestQueueServiceOptions(t *testing.T) {
	for _, test := range []struct {
		opts rest.QueueServiceOptions
		text string
	}{
		{rest.QueueServiceOptions{QueueSize: -1}, "QueueSize must not be negative (is -1)"},
		{rest.QueueServiceOptions{NumWorkers: -2}, "NumWorkers must not be negative (is -2)"},
		{rest.QueueServiceOptions{ForceTimeout: -1}, "ForceTimeout must not be negative (is -1ns)"},
	} {
		s := rest.NewQueueService()
		require.ErrorContains(t, s.OpenWithOptions(t.Context(), test.opts), test.text)
		assert.Nil(t, s.Queue())
	}
	s := rest.NewQueueService()
	require.NoError(t, s.OpenWithOptions(t.Context(), rest.QueueServiceOptions{ForceTimeout: 1, NumWorkers: 1, QueueSize: 1}))
	defer s.Close()
	assert.False(t, amboy.WaitJob(within(t), newResize("nobody", ""), s.Queue()))
	for s.Queue().Next(within(t)) != nil { // Next returns nil after the queue has ended
		assert.Fail(t, "the queue must be empty")
	}
}
