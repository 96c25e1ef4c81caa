package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/dashboard"
)

// sample is an example of a request to a route.
type sample struct {
	action rest.Action // empty if no authorization is needed
	target string      // QUEUE stands for the name of a queue
	body   string
	// all is true if the request concerns all queues.
	all bool
	// also is another right that the request needs.
	also rest.Action
	// sum is a part of the answer for one queue, if the answer contains a sum over queues.
	sum string
}

// samples contains requests for each route: at least one for each action of the route.
var samples = map[string][]sample{
	"GET /v2/queues":                          {{action: rest.ActionRead, target: "/v2/queues", all: true}, {action: rest.ActionRead, target: "/v2/queues?queues=QUEUE"}},
	"GET /v2/totals":                          {{action: rest.ActionRead, target: "/v2/totals", all: true, sum: `"queues":1,`}},
	"GET /v2/queues/{queue}":                  {{action: rest.ActionRead, target: "/v2/queues/QUEUE"}},
	"PATCH /v2/queues/{queue}":                {{action: rest.ActionControl, target: "/v2/queues/QUEUE", body: `{"paused":true}`}},
	"GET /v2/jobs":                            {{action: rest.ActionRead, target: "/v2/jobs", all: true}, {action: rest.ActionRead, target: "/v2/jobs?queues=QUEUE"}},
	"GET /v2/jobs/count":                      {{action: rest.ActionRead, target: "/v2/jobs/count", all: true, sum: `"count":1,`}, {action: rest.ActionRead, target: "/v2/jobs/count?queues=QUEUE"}},
	"GET /v2/jobs/states":                     {{action: rest.ActionRead, target: "/v2/jobs/states", all: true, sum: `"count":1,`}, {action: rest.ActionRead, target: "/v2/jobs/states?queues=QUEUE"}},
	"GET /v2/jobs/errors":                     {{action: rest.ActionRead, target: "/v2/jobs/errors", all: true, sum: `"examined":1}`}, {action: rest.ActionRead, target: "/v2/jobs/errors?queues=QUEUE"}},
	"POST /v2/jobs/actions":                   append(bulk(`{},"all":true`, true), bulk(`{"queues":["QUEUE"]}`, false)...),
	"POST /v2/queues/{queue}/jobs":            {{action: rest.ActionCreate, target: "/v2/queues/QUEUE/jobs", body: `{"id":"new","type":"resize"}`}},
	"GET /v2/queues/{queue}/jobs/{id}/result": {{action: rest.ActionRead, target: "/v2/queues/QUEUE/jobs/one/result?wait=1s"}},
	"GET /v2/queues/{queue}/jobs/{id}":        {{action: rest.ActionRead, target: "/v2/queues/QUEUE/jobs/one"}},
	"DELETE /v2/queues/{queue}/jobs/{id}":     {{action: "delete", target: "/v2/queues/QUEUE/jobs/one"}},
	"GET /v2/queues/{queue}/jobs/{id}/graph":  {{action: rest.ActionRead, target: "/v2/queues/QUEUE/jobs/one/graph"}},
	"POST /v2/queues/{queue}/jobs/{id}/actions": each(func(kind management.ActionKind) sample {
		return sample{action: rest.Action(kind), target: "/v2/queues/QUEUE/jobs/one/actions", body: "{" + actionJSON(kind) + "}"}
	}),
	"PATCH /v2/queues/{queue}/jobs/{id}": {{action: rest.ActionEdit, target: "/v2/queues/QUEUE/jobs/one", body: `{"priority":3}`}},
	"POST /v2/leases": {
		{action: rest.ActionWork, target: "/v2/leases", body: `{"queues":["QUEUE"],"types":["resize"]}`},
		{action: rest.ActionWork, target: "/v2/leases", body: `{"queues":["QUEUE"],"types":["resize"],"acknowledge":[{"token":"TOKEN","complete":{}}]}`},
	},
	"POST /v2/leases/acknowledge": {{action: rest.ActionWork, target: "/v2/leases/acknowledge", body: `{"acknowledge":[{"token":"TOKEN","complete":{}}]}`}},
	"POST /v2/leases/heartbeat":   {{action: rest.ActionWork, target: "/v2/leases/heartbeat", body: `{"heartbeats":[{"token":"TOKEN"}]}`}},

	"GET /v2/scopes":                          {{action: rest.ActionRead, target: "/v2/scopes", all: true}, {action: rest.ActionRead, target: "/v2/scopes?queues=QUEUE"}},
	"GET /v2/processes":                       {{action: rest.ActionRead, target: "/v2/processes", all: true}},
	"GET /v2/activity":                        {{action: rest.ActionRead, target: "/v2/activity", all: true, sum: `"succeeded":1,"failed":0`}, {action: rest.ActionRead, target: "/v2/activity?queues=QUEUE"}},
	"GET /v2/diagnosis":                       {{action: rest.ActionRead, target: "/v2/diagnosis", all: true}},
	"GET /v2/schedules":                       {{action: rest.ActionRead, target: "/v2/schedules", all: true}},
	"GET /v2/schedules/stored":                {{action: rest.ActionRead, target: "/v2/schedules/stored", all: true}, {action: rest.ActionRead, target: "/v2/schedules/stored?queues=QUEUE"}},
	"POST /v2/queues/{queue}/schedules":       {{action: rest.ActionSchedule, also: rest.ActionCreate, target: "/v2/queues/QUEUE/schedules", body: `{"name":"nightly","type":"resize","cron":"@daily"}`}},
	"GET /v2/queues/{queue}/schedules/{name}": {{action: rest.ActionRead, target: "/v2/queues/QUEUE/schedules/nightly"}},
	"PUT /v2/queues/{queue}/schedules/{name}": {{action: rest.ActionSchedule, also: rest.ActionCreate, target: "/v2/queues/QUEUE/schedules/nightly", body: `{"type":"resize","cron":"@daily"}`}},
	"PATCH /v2/queues/{queue}/schedules/{name}": {
		{action: rest.ActionSchedule, target: "/v2/queues/QUEUE/schedules/nightly", body: `{"paused":true}`},
		{action: rest.ActionSchedule, also: rest.ActionCreate, target: "/v2/queues/QUEUE/schedules/nightly", body: `{"paused":false}`},
	},
	"DELETE /v2/queues/{queue}/schedules/{name}":       {{action: rest.ActionSchedule, target: "/v2/queues/QUEUE/schedules/nightly"}},
	"POST /v2/queues/{queue}/schedules/{name}/trigger": {{action: rest.ActionTrigger, also: rest.ActionCreate, target: "/v2/queues/QUEUE/schedules/nightly/trigger"}},

	"GET /v2/audit":        {{action: rest.ActionRead, target: "/v2/audit", all: true}, {action: rest.ActionRead, target: "/v2/audit?queues=QUEUE"}},
	"GET /v2/types":        {{action: rest.ActionRead, target: "/v2/types", all: true}},
	"GET /v2/events":       {{action: rest.ActionRead, target: "/v2/events", all: true}},
	"GET /v2/openapi.json": {{action: rest.ActionRead, target: "/v2/openapi.json", all: true}},

	"GET /{$}":                             {{action: rest.ActionRead, target: "/", all: true}},
	"GET /jobs":                            {{action: rest.ActionRead, target: "/jobs", all: true}, {action: rest.ActionRead, target: "/jobs?queue=QUEUE"}},
	"GET /find":                            {{action: rest.ActionRead, target: "/find?id=x", all: true}},
	"GET /errors":                          {{action: rest.ActionRead, target: "/errors", all: true}, {action: rest.ActionRead, target: "/errors?queue=QUEUE"}},
	"GET /queues":                          {{action: rest.ActionRead, target: "/queues", all: true}},
	"GET /queues/{queue}":                  {{action: rest.ActionRead, target: "/queues/QUEUE"}},
	"GET /queues/{queue}/jobs/{id}":        {{action: rest.ActionRead, target: "/queues/QUEUE/jobs/one"}},
	"GET /queues/{queue}/jobs/{id}/edit":   {{action: rest.ActionRead, target: "/queues/QUEUE/jobs/one/edit"}},
	"GET /queues/{queue}/create":           {{action: rest.ActionRead, target: "/queues/QUEUE/create"}},
	"POST /queues/{queue}/create":          {{action: rest.ActionCreate, target: "/queues/QUEUE/create", body: "type=resize"}},
	"POST /queues/{queue}/jobs/{id}/edit":  {{action: rest.ActionEdit, target: "/queues/QUEUE/jobs/one/edit", body: "step=do&priority=3"}},
	"GET /workers":                         {{action: rest.ActionRead, target: "/workers", all: true}},
	"GET /diagnosis":                       {{action: rest.ActionRead, target: "/diagnosis", all: true}},
	"GET /schedules":                       {{action: rest.ActionRead, target: "/schedules", all: true}},
	"GET /schedules/new":                   {{action: rest.ActionRead, target: "/schedules/new", all: true}},
	"POST /schedules":                      {{action: rest.ActionSchedule, also: rest.ActionCreate, target: "/schedules", body: "queue=QUEUE&name=nightly&type=resize&cron=@daily"}},
	"GET /queues/{queue}/schedules/{name}": {{action: rest.ActionRead, target: "/queues/QUEUE/schedules/nightly"}},
	"POST /queues/{queue}/schedules/{name}": {
		{action: rest.ActionTrigger, also: rest.ActionCreate, target: "/queues/QUEUE/schedules/nightly", body: "do=trigger"},
		{action: rest.ActionSchedule, target: "/queues/QUEUE/schedules/nightly", body: "do=pause"},
		{action: rest.ActionSchedule, also: rest.ActionCreate, target: "/queues/QUEUE/schedules/nightly", body: "do=resume"},
		{action: rest.ActionSchedule, target: "/queues/QUEUE/schedules/nightly", body: "do=delete&confirmed=yes"},
	},
	"GET /scopes":                  {{action: rest.ActionRead, target: "/scopes", all: true}},
	"GET /audit":                   {{action: rest.ActionRead, target: "/audit", all: true}},
	"GET /live":                    {{action: rest.ActionRead, target: "/live", all: true}},
	"GET /assets/{path...}":        {{target: "/assets/app.css"}},
	"POST /theme":                  {{target: "/theme", body: "theme=dark&back=jobs"}},
	"POST /queues/{queue}/control": {{action: rest.ActionControl, target: "/queues/QUEUE/control", body: "paused=true"}},
	"POST /jobs/actions":           append(bulkForm("step=do&which=all", true), bulkForm("step=do&which=all&queue=QUEUE", false)...),
	"POST /queues/{queue}/jobs/{id}/actions": each(func(kind management.ActionKind) sample {
		return sample{action: rest.Action(kind), target: "/queues/QUEUE/jobs/one/actions", body: "confirmed=1&" + actionForm(kind)}
	}),
}

func each(sampleOf func(kind management.ActionKind) sample) []sample {
	var samples []sample
	for _, kind := range management.ActionKinds() {
		samples = append(samples, sampleOf(kind))
	}
	return samples
}

func bulk(filter string, all bool) []sample {
	return each(func(kind management.ActionKind) sample {
		return sample{
			action: rest.Action(kind), target: "/v2/jobs/actions", all: all,
			body: fmt.Sprintf(`{%s,"filter":%s,"limit":10}`, actionJSON(kind), filter),
		}
	})
}

func bulkForm(fields string, all bool) []sample {
	return each(func(kind management.ActionKind) sample {
		return sample{action: rest.Action(kind), target: "/jobs/actions", all: all, body: fields + "&" + actionForm(kind)}
	})
}

func actionJSON(kind management.ActionKind) string {
	more := map[management.ActionKind]string{
		management.Reschedule: `,"at":"2030-01-01T00:00:00Z"`,
		management.Prioritize: `,"priority":3`,
	}
	return fmt.Sprintf(`"action":%q%s`, kind, more[kind])
}

func actionForm(kind management.ActionKind) string {
	more := map[management.ActionKind]string{
		management.Reschedule: "&at=2030-01-01T00:00:00Z",
		management.Prioritize: "&priority=3",
	}
	return "action=" + string(kind) + more[kind]
}

// routes returns all routes, with their possible actions.
func routes() map[string][]rest.Action {
	all := map[string][]rest.Action{}
	for _, route := range api.Routes() {
		all[route.Mux()] = route.Actions
	}
	for _, route := range dashboard.New(dashboard.Options{}).Routes() {
		actions := []rest.Action{}
		for _, action := range route.Actions {
			// A form may lead to pages that are only read; its action is authorized.
			if action != "read" || len(route.Actions) == 1 {
				actions = append(actions, rest.Action(action))
			}
		}
		all[route.Mux()] = actions
	}
	return all
}

// TestEveryRouteHasSamples checks that the table is complete: every action of every route
// needs a sample.
func TestEveryRouteHasSamples(t *testing.T) {
	all := routes()
	assert.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(samples)))
	for route, actions := range all {
		sampled := map[rest.Action]bool{}
		for _, s := range samples[route] {
			if s.action != "" {
				sampled[s.action] = true
			}
		}
		assert.ElementsMatch(t, actions, slices.Collect(maps.Keys(sampled)), route)
	}
}

// forEachSample runs a test for each sample.
func forEachSample(t *testing.T, test func(t *testing.T, method string, s sample)) {
	for route, requests := range samples {
		method, _, _ := strings.Cut(route, " ")
		for _, s := range requests {
			t.Run(fmt.Sprintf("%s %s %s", route, s.action, strings.ReplaceAll(s.target+s.body, "/", "|")), func(t *testing.T) {
				test(t, method, s)
			})
		}
	}
}

// result is the answer to a sample. For events it ends after the first one.
type result struct {
	status int
	header http.Header
	body   string
}

// ask sends a sample for a queue to a handler, from the loopback address.
func (s sample) ask(t *testing.T, handler http.Handler, method, queue string, change func(*http.Request)) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, method, strings.ReplaceAll(s.target, "QUEUE", queue), strings.NewReader(strings.NewReplacer("QUEUE", queue, "TOKEN", forgedToken(queue)).Replace(s.body)))
	request.Host, request.RemoteAddr = "localhost:8080", "127.0.0.1:5000"
	if method != http.MethodGet {
		kind := "application/x-www-form-urlencoded"
		if strings.HasPrefix(s.target, "/v2/") {
			kind = "application/json"
		}
		request.Header.Set("Content-Type", kind)
	}
	if change != nil {
		change(request)
	}
	recorder := &inspectortest.Endless{ResponseRecorder: httptest.NewRecorder(), End: cancel}
	handler.ServeHTTP(recorder, request)
	answer := recorder.Result()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return result{answer.StatusCode, answer.Header, string(body)}
}

var errNo = errors.New("the secret reason")

// may allows some actions in the listed queues, or in all queues if none are listed.
func may(actions []rest.Action, queues ...string) rest.Option {
	return rest.Authorize(func(_ *http.Request, access rest.Access) error {
		if !slices.Contains(actions, access.Action) || len(queues) > 0 && (access.AllQueues || !slices.Contains(queues, access.Queue)) {
			return errNo
		}
		return nil
	})
}

// role is a set of rules.
type role struct {
	name   string
	option rest.Option
	// may reports whether the role should allow an action.
	may func(action rest.Action, queue string, all bool) bool
}

func newRoles() []role {
	actions := []rest.Action{rest.ActionRead, rest.ActionCreate, rest.ActionControl, rest.ActionWork, rest.ActionSchedule, rest.ActionTrigger, rest.ActionEdit}
	for _, kind := range management.ActionKinds() {
		actions = append(actions, rest.Action(kind))
	}
	roles := []role{
		{"no rights", may(nil), func(rest.Action, string, bool) bool { return false }},
		{"operator", may(actions), func(rest.Action, string, bool) bool { return true }},
		{"operator of one queue", may(actions, mine), func(_ rest.Action, queue string, all bool) bool { return queue == mine && !all }},
	}
	for _, only := range actions {
		roles = append(roles, role{"only " + string(only), may([]rest.Action{only}), func(action rest.Action, _ string, _ bool) bool { return action == only }})
	}
	return roles
}

// TestAuthorization covers the table of actions, roles and tenants, for every route.
func TestAuthorization(t *testing.T) {
	dispatcher := newWorkers(t).dispatcher
	for _, role := range newRoles() {
		for _, tenant := range []string{"", mine} {
			inspector := &tenants{}
			opts := []rest.Option{role.option, rest.CreateTypes("resize"), rest.Workers(dispatcher), rest.Actor(func(*http.Request) string { return "operator" })}
			if tenant != "" {
				opts = append(opts, rest.Tenant(tenant))
			}
			handler := rest.Handler(inspector, opts...)
			forEachSample(t, func(t *testing.T, method string, s sample) {
				for _, queue := range both {
					inspector.did = nil
					got := s.ask(t, handler, method, queue, nil)
					what := fmt.Sprintf("role %s, tenant %q, queue %s: %s", role.name, tenant, queue, got.body)
					// For a tenant, all queues means its own.
					asked, all := queue, s.all
					if all && tenant != "" {
						asked, all = tenant, false
					}
					switch {
					case s.action == "":
						assert.Less(t, got.status, 400, what)
					case tenant != "" && asked != tenant:
						assert.Equal(t, http.StatusNotFound, got.status, what)
					case all && method == http.MethodGet && role.may(s.action, mine, false) && !role.may(s.action, "", true) && got.status == http.StatusSeeOther:
						// a page leads to that of the only queue that the role may read
						assert.NotContains(t, got.header.Get("Location"), theirs, what)
					case !role.may(s.action, asked, all), s.also != "" && !role.may(s.also, asked, all):
						assert.Equal(t, http.StatusForbidden, got.status, what)
						assert.NotContains(t, got.body, errNo.Error())
					default:
						assert.Less(t, got.status, 400, what)
						checkDone(t, inspector.done(), s, asked, all)
					}
					if got.status >= 400 {
						assert.Empty(t, inspector.done(), what)
					}
					if tenant != "" && s.action != "" && got.status < 400 {
						assert.NotContains(t, got.body, theirs, what)
						assert.Contains(t, got.body, s.sum, what)
					}
					checkHeaders(t, got, s)
				}
			})
		}
	}
}

// TestTenantOfARequest covers handlers whose requests are those of several tenants, for every route.
func TestTenantOfARequest(t *testing.T) {
	inspector := &tenants{}
	handler := rest.Handler(inspector, everybody(), rest.CreateTypes("resize"), rest.Workers(newWorkers(t).dispatcher),
		rest.TenantOf(func(r *http.Request) string {
			tenant := r.Header.Get("X-Tenant")
			if tenant == "panic" {
				panic("no session")
			}
			return tenant
		}))
	forEachSample(t, func(t *testing.T, method string, s sample) {
		if s.action == "" {
			return // a form or a file, the same for all
		}
		for _, queue := range both {
			for _, tenant := range []string{mine, theirs, "", "panic"} {
				inspector.did = nil
				got := s.ask(t, handler, method, queue, func(r *http.Request) { r.Header.Set("X-Tenant", tenant) })
				what := fmt.Sprintf("tenant %q, queue %s: %d %s", tenant, queue, got.status, got.body)
				switch {
				case tenant == queue, s.all && (tenant == mine || tenant == theirs):
					assert.Less(t, got.status, 400, what)
				case tenant == mine, tenant == theirs:
					assert.Equal(t, http.StatusNotFound, got.status, what)
				default:
					assert.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, got.status, what)
				}
				if got.status >= 400 {
					assert.Empty(t, inspector.done(), what)
				} else if tenant == mine {
					assert.NotContains(t, got.body, theirs, what)
				}
			}
		}
	})
	assert.Panics(t, func() { rest.TenantOf(nil) })
}

// The answer to a request that TenantOf gives no tenant, because its token is wrong, was 403 or
// 404, although Authorize returned ErrUnauthenticated.
func TestAWrongTokenUnderTenantOfWasNot401(t *testing.T) {
	inspector := &tenants{}
	handler := rest.Handler(inspector, rest.CreateTypes("resize"), rest.Workers(newWorkers(t).dispatcher),
		rest.TenantOf(func(*http.Request) string { return "" }),
		rest.Authorize(func(*http.Request, rest.Access) error { return rest.ErrUnauthenticated }))
	forEachSample(t, func(t *testing.T, method string, s sample) {
		if s.action == "" {
			return // a form or a file, the same for all
		}
		got := s.ask(t, handler, method, mine, func(*http.Request) {})
		assert.Equal(t, http.StatusUnauthorized, got.status, "%s %s", method, got.body)
		assert.Empty(t, inspector.done())
	})
}

// checkDone checks that a request has done what it should, in the queue it should.
func checkDone(t *testing.T, done []string, s sample, queue string, all bool) {
	t.Helper()
	want := []string{}
	for _, q := range both {
		if s.action != rest.ActionRead && s.action != rest.ActionWork && (all || q == queue) {
			want = append(want, fmt.Sprintf("%s %s by \"operator\"", s.action, q))
		}
	}
	assert.ElementsMatch(t, want, done)
}

// checkHeaders checks the headers that make browsers treat an answer as plain data.
func checkHeaders(t *testing.T, got result, s sample) {
	t.Helper()
	policy := got.header.Get("Content-Security-Policy")
	if strings.HasPrefix(s.target, "/v2/") {
		assert.Equal(t, "default-src 'none'; frame-ancestors 'none'", policy)
	} else {
		assert.Contains(t, policy, "default-src 'none'")
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.NotContains(t, policy, "unsafe")
	}
	assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	assert.Equal(t, "DENY", got.header.Get("X-Frame-Options"))
	assert.Equal(t, "same-origin", got.header.Get("Cross-Origin-Resource-Policy"))
	assert.Equal(t, "same-origin", got.header.Get("Cross-Origin-Opener-Policy"))
	assert.Contains(t, []string{"no-referrer", "same-origin"}, got.header.Get("Referrer-Policy"))
	if s.action != "" {
		assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	}
}

// An address grants nothing. Every user of the machine can connect from the loopback address,
// and so does a proxy on the machine, which with nginx's defaults does not identify itself.
func TestAttackWithoutAuthorizeALoopbackAddressGrantsNothing(t *testing.T) {
	attackers := map[string]func(*http.Request){
		"another user of the machine":    func(r *http.Request) { r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost:8080" },
		"another user of it, by IPv6":    func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:5000", "[::1]:8080" },
		"a Unix socket":                  func(r *http.Request) { r.RemoteAddr, r.Host = "@", "localhost" },
		"another machine":                func(r *http.Request) { r.RemoteAddr, r.Host = "192.0.2.1:5000", "jobs.example" },
		"a site with a name for it":      func(r *http.Request) { r.RemoteAddr, r.Host = "127.0.0.1:5000", "evil.example:8080" },
		"a proxy that identifies itself": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") },
		"a default nginx": func(r *http.Request) {
			r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:8080"
			r.Proto, r.ProtoMajor, r.ProtoMinor, r.Close = "HTTP/1.0", 1, 0, true
		},
	}
	inspector := &tenants{}
	handler := rest.Handler(inspector)
	forEachSample(t, func(t *testing.T, method string, s sample) {
		for name, attacker := range attackers {
			got := s.ask(t, handler, method, mine, attacker)
			assert.Equal(t, s.action != "", got.status == http.StatusForbidden, "%s: %d %s", name, got.status, got.body)
			assert.Empty(t, inspector.done())
		}
	})
}

// A page of another site can change nothing and read nothing, neither from what it loads nor
// from how long that takes.
func TestAttackAPageOfAnotherSite(t *testing.T) {
	everything := rest.Authorize(func(*http.Request, rest.Access) error { return nil })
	pages := []struct {
		name    string
		header  map[string]string
		allowed bool
	}{
		{"another site", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false},
		{"another origin of the site", map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{"another site, in an old browser", map[string]string{"Origin": "https://evil.example"}, false},
		{"a sandbox", map[string]string{"Origin": "null"}, false},
		{"another port", map[string]string{"Origin": "http://localhost:9090"}, false},
		{"another site that reads", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, false},
		{"another site, in a frame", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, false},
		{"another port of this machine that reads", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, false},
		{"its own page", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8080"}, true},
		{"its own page, in an old browser", map[string]string{"Origin": "http://localhost:8080"}, true},
		{"the user", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"no browser", nil, true},
	}
	inspector := &tenants{}
	handler := rest.Handler(inspector, everything, rest.CreateTypes("resize"), rest.Workers(newWorkers(t).dispatcher))
	forEachSample(t, func(t *testing.T, method string, s sample) {
		for _, page := range pages {
			inspector.did = nil
			got := s.ask(t, handler, method, mine, func(r *http.Request) {
				for name, value := range page.header {
					r.Header.Set(name, value)
				}
			})
			if page.allowed {
				assert.Less(t, got.status, 400, "%s: %s", page.name, got.body)
			} else {
				assert.Equal(t, http.StatusForbidden, got.status, page.name)
				assert.Empty(t, inspector.done())
			}
			assert.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
			checkHeaders(t, got, s)
		}
		// Links from other sites are allowed.
		got := s.ask(t, handler, method, mine, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		})
		assert.Equal(t, method == http.MethodGet, got.status < 400, got.body)
	})
}

// An answer to too many watchers contains Retry-After, so that clients do not retry at once.
func TestTooManyWatchersGetRetryAfter(t *testing.T) {
	url := serve(t, rest.Handler(&tenants{}, everybody()))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for _, target := range []string{"/v2/events", "/live"} {
		for n := range 101 { // one more than the limit per client
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+target, http.NoBody)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, response.Body.Close()) })
			if n < 100 {
				require.Equal(t, http.StatusOK, response.StatusCode)
				continue
			}
			assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			assert.Equal(t, "30", response.Header.Get("Retry-After"))
		}
	}
}

// The pages of a tenant's audit list must not depend on how often others act.
func TestAttackATenantCountsTheActionsOfOthers(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	handler := rest.Handler(inspector, everybody(), rest.Tenant("orders"))
	pages := func() (sizes []int) {
		cursor := ""
		for {
			got := sample{target: "/v2/audit?limit=1" + cursor}.ask(t, handler, http.MethodGet, "", nil)
			require.Equal(t, http.StatusOK, got.status, got.body)
			var page management.AuditPage
			require.NoError(t, json.Unmarshal([]byte(got.body), &page))
			sizes = append(sizes, len(page.Entries))
			if cursor = "&cursor=" + page.Next; page.Next == "" {
				return sizes
			}
		}
	}
	before := pages()
	assert.Equal(t, []int{1, 1}, before)
	for n := range 100 {
		_, err := inspector.SetControl(t.Context(), "_tenant", management.ControlChange{Paused: new(n%2 == 0)})
		require.NoError(t, err)
	}
	assert.Equal(t, before, pages())
}
