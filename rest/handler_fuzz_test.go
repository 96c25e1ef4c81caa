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

	"github.com/mongodb/amboy/rest"
)

// FuzzHandler checks that no request to the API or to the pages is answered with a 5xx status, and that the
// answers of the API are JSON.
func FuzzHandler(f *testing.F) {
	const form, object = "application/x-www-form-urlencoded", "application/json"
	for _, target := range []string{
		"/", "", "//", "/live?x", "/jobs?queue=&state=failed&created_from=2026-01-01T00:00&limit=25&cursor=x", "/jobs?queue=_.&id_pattern=*%00*", "/find?id=%FF",
		"/errors?error=%00&type_part=%FF", "/queues?sort=failures&name=%5C", "/queues/q", "/queues/%2E%2E/jobs/_.", "/queues/%00?last=30d", "/queues/q/create?like=%20",
		"/queues/q/jobs/x/edit", "/queues/q/schedules/x", "/schedules/new?queue=__", "/workers", "/diagnosis", "/scopes?part=%00&name=x", "/audit?what=refused&actor=&job=%FF", "/assets/../app.js",
		"/v2", "/v2/queues/%00/jobs/%FF", "/v2/queues?name=%00&cursor=AAAA", "/v2/jobs?created[from]=0001-01-01T00:00:00Z&ids=%00", "/v2/jobs/count?most=1&error=%00",
		"/v2/jobs/states?within=1ns", "/v2/jobs/errors?error_group=%00", "/v2/scopes?name=%00", "/v2/audit?time[to]=9999-12-31T23:59:59Z", "/v2/activity?last=720h&types=%00",
		"/v2/queues/q/jobs/x/graph?distance=5", "/v2/queues/q/jobs/x/result", "/v2/schedules/stored?name=%00",
	} {
		f.Add("GET", target, "", "")
	}
	for target, body := range map[string]string{
		"/jobs/actions":                "step=do&which=all&action=reschedule&at=9999-12-31T23:59&state=pending&part=9&cursor=%00",
		"/jobs/actions?":               "step=preview&which=picked&action=retry&pick=_%2F%2500&pick=%252E/x",
		"/queues/q/jobs/x/actions":     "action=prioritize&priority=-9223372036854775808",
		"/queues/q/jobs/x/edit":        "step=preview&args=%7B%7D&priority=1&due=0001-01-01T00:00&due_was=&revision=0",
		"/queues/q/create":             "type=scale&args=%22%5Cu0000%22&tags=%00%0A%FF&key=k&due=0000-01-01T00:00",
		"/queues/q/control":            "rate=1e308&burst=2147483648&type=%00",
		"/queues/q/control?":           "rate=NaN&max_running=9223372036854775807&workers=-1",
		"/schedules":                   "queue=q&name=a&cron=*+*+*+*+*&zone=..%2F..%2Fetc&type=scale&outside=true&args=1",
		"/queues/q/schedules/x":        "do=change&every=1ns&type=%00&catch_up=all&max_catch_up=-1",
		"/theme":                       "theme=dark&back=//example.org",
		"/queues/q/schedules/x?":       "do=trigger&key=%00",
		"/queues/a%00b/jobs/x/actions": "action=delete&confirmed=1",
	} {
		f.Add("POST", target, form, body)
	}
	for target, body := range map[string]string{
		"/v2/jobs/actions":                 `{"kind":"park","filter":{"args_part":"\u0000","created":{"from":"0001-01-01T00:00:00Z"}},"limit":-1}`,
		"/v2/queues/_/jobs":                `{"type":"scale","outside":true}`,
		"/v2/queues/_/schedules":           `{"name":"a","every":"1h","type":"scale","outside":true}`,
		"/v2/queues/q/jobs":                `{"type":"scale","outside":true,"args":"\u0000","tags":["\u0000"],"metadata":{"a":"\u0000"},"scopes":["\u0000#1"],"due":"9999-12-31T23:59:59Z","time_to_live":"2540400h"}`,
		"/v2/queues/a%00/jobs?wait=1ns":    `{"id":"\u0000","type":"\u0000","outside":true,"bytes":"","after":["\u0000"],"unique_key":"\u0000","backoff":{"wait":"1ns","factor":1e308}}`,
		"/v2/queues/q/jobs/x/actions":      `{"kind":"cancel","reason":"\u0000"}`,
		"/v2/leases":                       `{"queues":["","\u0000"],"types":["scale","\u0000"],"limit":1000,"worker":"/","acknowledge":[{"token":"x","fail":{"error":"\u0000","retry_in":"-1s"}}]}`,
		"/v2/leases/acknowledge":           `{"acknowledge":[{"token":"AwABeAFzA18ueAF4AgIC","release":{"reason":"\u0000"}}]}`,
		"/v2/leases/heartbeat":             `{"heartbeats":[{"token":"","progress":{"fraction":2},"log":["\u0000"]}]}`,
		"/v2/queues/q/schedules":           `{"name":"a","every":"1ns","type":"\u0000","outside":true,"zone":"../UTC"}`,
		"/v2/queues/q/schedules/x/trigger": ``,
	} {
		f.Add("POST", target, object, body)
	}
	f.Add("PATCH", "/v2/queues/q", object, `{"create":true,"rate":{"per_second":1e308,"burst":9223372036854775807},"type_limit":{"type":"\u0000"}}`)
	f.Add("PATCH", "/v2/queues/q/jobs/x", object, `{"args":"\u0000","due":"9999-12-31T23:59:59Z","priority":-9223372036854775808}`)
	f.Add("PUT", "/v2/queues/q/schedules/x", object, `{"cron":"* * * * *","zone":"Local","type":"scale","catch_up":"all","max_catch_up":-1}`)
	f.Add("DELETE", "/v2/queues/q/jobs/%00", "", "")
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		location, err := url.ParseRequestURI("http://example.com" + target)
		if err != nil || strings.Contains(target, "wait") || strings.Contains(body, "wait") {
			return // net/http answers itself, or the request waits long
		}
		w := newWorkers(t, rest.CreateTypes("resize"))
		for _, job := range []string{
			`{"id":"x","type":"scale","outside":true,"args":{"a":[1]},"tags":["t"]}`, `{"id":"y","type":"scale","outside":true,"after":["x"],"scopes":["s"]}`,
		} {
			w.create("q", job)
		}
		status, made := w.post("/v2/queues/q/schedules", `{"name":"x","every":"1h","type":"scale","outside":true}`)
		require.Equal(t, http.StatusCreated, status, "%v", made)
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(target, "live") || strings.Contains(target, "events") {
			cancel() // a stream has no end
		}
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", strings.NewReader(body))
		request.Method, request.URL, request.RequestURI = method, location, target
		if contentType != "" {
			request.Header.Set("Content-Type", contentType)
		}
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, request)
		assert.Less(t, answer.Code, 500, answer.Body.String())
		if strings.HasPrefix(location.Path, "/v2/") && method != http.MethodHead && answer.Header().Get("Content-Type") != "text/event-stream" {
			assert.True(t, json.Valid(answer.Body.Bytes()), answer.Body.String())
		}
	})
}
