package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/rest/internal/api"
)

// Each invalid request is answered with a 4xx problem that names the field, and changes
// nothing.
func TestInvalidRequestsChangeNothing(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	handler := rest.Handler(inspector, everybody(), rest.CreateTypes("resize", "no such"))
	long, ones := strings.Repeat("a", 5000), strings.Repeat("1", 5000)
	tests := []struct {
		method, target, body string
		status               int    // 400 if zero
		field                string // empty if the problem has no field
		change               func(*http.Request)
	}{
		{target: "/v2/queues?color=red", field: "color"},
		{target: "/v2/jobs?limit=0", field: "limit"},
		{target: "/v2/jobs?limit=-1", field: "limit"},
		{target: "/v2/jobs?limit=1000000000", field: "limit"},
		{target: "/v2/jobs?limit=1001", field: "limit"},
		{target: "/v2/jobs?limit=99999999999999999999", field: "limit"},
		{target: "/v2/jobs?limit=1.5", field: "limit"},
		{target: "/v2/jobs?limit=%2B5", field: "limit"},
		{target: "/v2/jobs?limit=", field: "limit"},
		{target: "/v2/jobs?limit=1&limit=2", field: "limit"},
		{target: "/v2/jobs?newest=yes", field: "newest"},
		{target: "/v2/jobs?cursor=x", field: "cursor"},
		{target: "/v2/jobs?states=asleep", field: "states"},
		{target: "/v2/jobs?created[from]=yesterday", field: "created[from]"},
		{target: "/v2/jobs?created[from]=0001-01-01T00:00:00Z", field: "created[from]"},
		{target: "/v2/jobs?ended[to]=9999-12-31T23:59:59-10:00", field: "ended[to]"},
		{target: "/v2/jobs?created[from]=2026-02-01T00:00:00Z&created[to]=2026-01-01T00:00:00Z", field: "created"},
		{target: "/v2/jobs?id_pattern=" + long, field: "id_pattern"},
		{target: "/v2/jobs?error=%FF", field: "error"},
		{target: "/v2/jobs?" + strings.Repeat("tags=a&", 101), field: "tags"},
		{target: "/v2/jobs?" + long + "=1", field: long[:100] + "…"},
		{target: "/v2/jobs?a" + strings.Repeat("%C3%A9", 100) + "=1", field: "a" + strings.Repeat("é", 49) + "…"}, // it was cut within a character
		{target: "/v2/jobs?a=%zz", field: "query"},
		{target: "/v2/jobs?a;b", field: "query"},
		{target: "/v2/jobs/count?most=0", field: "most"},
		{target: "/v2/jobs/count?most=1000000000", field: "most"},
		{target: "/v2/activity?last=0s", field: "last"},
		{target: "/v2/activity?last=-1h", field: "last"},
		{target: "/v2/activity?last=721h", field: "last"},
		{target: "/v2/activity?last=soon", field: "last"},
		{target: "/v2/events?every=1ms", field: "every"},
		{target: "/v2/events?every=2h", field: "every"},
		{target: "/v2/audit?cursor=x", field: "cursor"},
		{target: "/v2/scopes?cursor=x", field: "cursor"},
		{target: "/v2/queues/orders/jobs/failed/graph?distance=0", field: "distance"},
		{target: "/v2/queues/orders/jobs/failed/graph?distance=6", field: "distance"},
		{target: "/v2/queues/_x", field: "queue"},
		{target: "/v2/queues/%FF", field: "queue"},
		{target: "/v2/queues/" + long, field: "queue"},
		{target: "/v2/queues/nowhere", status: http.StatusNotFound},
		{target: "/v2/queues/orders/jobs/%FF", field: "id"},
		{target: "/v2/queues/orders/jobs/" + long, field: "id"},
		{target: "/v2/queues/orders/jobs/nothing", status: http.StatusNotFound},
		{target: "/v2/nowhere", status: http.StatusNotFound},
		{target: "/v2", status: http.StatusNotFound},
		{method: http.MethodPut, target: "/v2/queues/orders", status: http.StatusMethodNotAllowed},
		{method: http.MethodPost, target: "/v2/events", status: http.StatusMethodNotAllowed},

		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"color":"red"}`, field: "color"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"max_running":-1}`, field: "max_running"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"workers":10001}`, field: "workers"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"paused":"yes"}`, field: "paused"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"` + long + `":1}`, field: long[:100] + "…"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"workers":` + ones + `}`, field: "workers"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `null`, field: "body"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: ``, field: "body"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{}{}`, field: "body"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"paused":true`, field: "body"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: strings.Repeat(" ", rest.MaxBodyBytes+1), status: http.StatusRequestEntityTooLarge, field: "body"},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"paused":true}`, status: http.StatusUnsupportedMediaType, field: "Content-Type", change: withHeader("Content-Type", "text/plain")},
		{method: http.MethodPatch, target: "/v2/queues/orders", body: `{"paused":true}`, status: http.StatusUnsupportedMediaType, field: "Content-Encoding", change: withHeader("Content-Encoding", "gzip")},
		{method: http.MethodPatch, target: "/v2/queues/orders?force=true", body: `{"paused":true}`, field: "force"},

		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","limit":10}`, field: "filter"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"types":["resize"]}}`, field: "limit"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{},"limit":1}`, field: "all"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{},"all":false,"limit":1}`, field: "all"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"types":["resize"]},"all":true,"limit":1}`, field: "all"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":[],"states":[],"types":[],"tags":[],"ids":[],"id_pattern":"","error":"","scope":"","created":{},"due":{},"ended":{}},"limit":1}`, field: "all"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"ids":[]},"limit":10}`, field: "ids"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"tags":[]},"limit":10}`, field: "tags"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"ids":null},"limit":10}`, field: "ids"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"error":null},"limit":10}`, field: "error"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"created":{"to":null}},"limit":10}`, field: "created.to"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"queues":["orders"],"states":"failed"},"limit":10}`, field: "filter.states"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"id_pattern":"*"},"limit":1}`, field: "all"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"id_pattern":"***"},"dry_run":true,"limit":1}`, field: "all"},
		{target: "/v2/jobs?id_pattern=" + strings.Repeat("*a", 11), field: "id_pattern"},
		{target: "/v2/jobs/count?id_pattern=" + strings.Repeat("*%3F", 11), field: "id_pattern"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"id_pattern":"` + strings.Repeat("*a", 11) + `"},"limit":1}`, field: "id_pattern"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{},"all":true,"limit":1000000000}`, field: "limit"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"delete","filter":{"stats":["failed"]},"limit":1}`, field: "stats"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"explode","filter":{},"limit":1}`, field: "action"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"filter":{},"limit":1}`, field: "action"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"reschedule","filter":{},"limit":1}`, field: "at"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"retry","filter":{},"all":true,"limit":1,"cursor":"x"}`, field: "cursor"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs/failed/actions", body: `{"action":"retry","priority":1}`, field: "priority"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs/scheduled/actions", body: `{"action":"cancel","reason":"` + long + `"}`, field: "reason"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs/succeeded/actions", body: `{"action":"park"}`, status: http.StatusConflict},

		{method: http.MethodPost, target: "/v2/queues/orders/jobs/scheduled/actions", body: `{"action":"reschedule","at":"soon"}`, field: "at"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs/scheduled/actions", body: `{"action":"prioritize","priority":"x"}`, field: "priority"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs/scheduled/actions", body: `{"action":"prioritize","priority":99999999999999999999}`, field: "priority"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"retry","filter":{"created":{"from":"soon"}},"limit":1}`, field: "filter.created.from"},
		{method: http.MethodPost, target: "/v2/jobs/actions", body: `{"action":"prioritize","priority":"x","filter":{},"limit":1}`, field: "priority"},

		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{}`, field: "type"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"no such"}`, field: "type"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","args":[]}`, field: "args"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","args":{"no such":1}}`, field: "args"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","args":{"` + long + `":1}}`, field: "args"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","due":"` + ones + `"}`, field: "due"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","id":"` + long + `"}`, field: "id"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: "{\"type\":\"resize\",\"id\":\"\xff\"}", field: "body"},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize"}`, field: "Idempotency-Key", change: withHeader("Idempotency-Key", long)},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize"}`, field: "Idempotency-Key", change: withHeader("Idempotency-Key", "")},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize"}`, field: "Idempotency-Key", change: withHeader("Idempotency-Key", "a b")},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize"}`, field: "Idempotency-Key", change: withHeader("Idempotency-Key", "a", "b")},
		{method: http.MethodPost, target: "/v2/queues/orders/jobs", body: `{"type":"resize","id":"failed"}`, status: http.StatusConflict},
		{method: http.MethodPost, target: "/v2/queues/nowhere/jobs", body: `{"type":"resize"}`, status: http.StatusNotFound},
	}
	before := everythingIn(t, inspector)
	for _, test := range tests {
		if test.method == "" {
			test.method = http.MethodGet
		}
		if test.status == 0 {
			test.status = http.StatusBadRequest
		}
		what := test.method + " " + test.target[:min(len(test.target), 100)] + " " + test.body[:min(len(test.body), 100)]
		got := sample{target: test.target, body: test.body}.ask(t, handler, test.method, "", test.change)
		assert.Equal(t, test.status, got.status, "%s: %s", what, got.body)
		assert.Equal(t, api.ProblemType, got.header.Get("Content-Type"), what)
		var problem api.Problem
		require.NoError(t, json.Unmarshal([]byte(got.body), &problem), what)
		assert.Equal(t, test.status, problem.Status, what)
		assert.NotEmpty(t, problem.Title, what)
		assert.NotEmpty(t, problem.Detail, what)
		assert.Less(t, len(got.body), 2000, what)
		var fields []string
		for _, e := range problem.Errors {
			fields = append(fields, e.Field)
		}
		if test.field != "" {
			assert.Contains(t, fields, test.field, "%s: %s", what, got.body)
		} else {
			assert.Empty(t, fields, what)
		}
	}
	assert.Equal(t, before, everythingIn(t, inspector))
}

func withHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

// everythingIn returns all state that requests can change, and the audit list.
func everythingIn(t *testing.T, inspector management.Inspector) string {
	all, err := inspector.Queues(t.Context())
	require.NoError(t, err)
	jobs, err := inspector.FindJobs(t.Context(), management.JobFilter{}, management.PageRequest{Limit: management.MaxLimit})
	require.NoError(t, err)
	encoded, err := json.Marshal([]any{all, jobs})
	require.NoError(t, err)
	return string(encoded)
}

// TestProblems compares complete answers with literals.
func TestProblems(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	handler := rest.Handler(inspector, everybody(), rest.CreateTypes("resize", "no such"))
	for target, want := range map[string]string{
		"/v2/jobs?limit=0": `{"type":"urn:amboy:problem:invalid-argument","title":"Invalid argument","status":400,
			"detail":"limit must be a whole number from 1 to 1000 (is \"0\")",
			"errors":[{"field":"limit","value":"0","rule":"must be a whole number from 1 to 1000"}]}`,
		"/v2/audit?queue=orders": `{"type":"urn:amboy:problem:invalid-argument","title":"Invalid argument","status":400,
			"detail":"queue is not a parameter of this route: it has queues, actors, what, job_id, time[from], time[to], cursor, limit, newest (is \"orders\")",
			"errors":[{"field":"queue","value":"orders","rule":"is not a parameter of this route: it has queues, actors, what, job_id, time[from], time[to], cursor, limit, newest"}]}`,
		"/v2/processes?queue=orders": `{"type":"urn:amboy:problem:invalid-argument","title":"Invalid argument","status":400,
			"detail":"queue is not a parameter of this route, which has none (is \"orders\")",
			"errors":[{"field":"queue","value":"orders","rule":"is not a parameter of this route, which has none"}]}`,
		"/v2/queues/nowhere":             `{"type":"urn:amboy:problem:unknown-queue","title":"Unknown queue","status":404,"detail":"DETAIL"}`,
		"/v2/queues/orders/jobs/nothing": `{"type":"urn:amboy:problem:job-not-found","title":"Job not found","status":404,"detail":"DETAIL"}`,
		"/v2/nowhere":                    `{"type":"about:blank","title":"Not Found","status":404,"detail":"no such resource"}`,
	} {
		got := sample{target: target}.ask(t, handler, http.MethodGet, "", nil)
		var problem api.Problem
		require.NoError(t, json.Unmarshal([]byte(got.body), &problem))
		assert.JSONEq(t, strings.ReplaceAll(want, `"DETAIL"`, quoted(t, problem.Detail)), got.body)
	}
	got := sample{target: "/v2/queues/orders/jobs/succeeded/actions", body: `{"action":"park"}`}.ask(t, handler, http.MethodPost, "", nil)
	var problem api.Problem
	require.NoError(t, json.Unmarshal([]byte(got.body), &problem))
	assert.EqualValues(t, "urn:amboy:problem:state", problem.Type)
	assert.Equal(t, &management.JobRef{Queue: "orders", ID: "succeeded"}, problem.Job)
	assert.EqualValues(t, "succeeded", problem.State)
	assert.EqualValues(t, "park", problem.Action)
}

func quoted(t *testing.T, text string) string {
	encoded, err := json.Marshal(text)
	require.NoError(t, err)
	return string(encoded)
}
