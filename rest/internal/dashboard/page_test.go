package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/dashboard"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// hostile is a text that would do harm if a page did not escape it.
const hostile = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> javascript:alert(1) \u202e日本 %2F../?&#"

// addresses are the addresses of pages, at least one for each route that serves a page.
var addresses = []string{
	"/", "/?last=15m", "/?last=48h",
	"/jobs", "/jobs?state=failed&state=running&type=a&tag=b&tag=c&id=d&id_pattern=x*&error=e&scope=s&created_from=2026-01-02T03:04&ended_to=2026-01-02T03:04:05Z&order=oldest&limit=100&cursor=c",
	"/errors", "/errors?error=e&queue=q&type=t&cursor=c",
	"/queues", "/queues?name=ten&sort=oldest&last=6h",
	"/queues/billing", "/queues/mail?did=control&told=x", "/queues/billing/create", "/queues/billing/jobs/close-month/edit",
	"/queues/billing/jobs/failed", "/queues/billing/jobs/running?did=retry&done=1&skipped=0", "/queues/billing/jobs/close-month?distance=5",
	"/queues/_/jobs/a%2Fb%20c%3Fd%23e", "/queues/billing/jobs/_..", "/queues/billing/jobs/bare",
	"/workers", "/schedules", "/schedules?name=a&queue=b&cursor=c", "/schedules/new", "/schedules/new?queue=mail", "/queues/billing/schedules/a%2Fb", "/diagnosis", "/scopes", "/scopes?name=a&queue=b&cursor=c", "/audit", "/audit?cursor=c&queue=b&actor=a&what=retry&job=x",
}

func TestPages(t *testing.T) {
	hostileFake := newFake()
	hostileFake.text = hostile
	emptyFake := newFake()
	emptyFake.empty = true
	for name, inspector := range map[string]*fake{"full": newFake(), "hostile": hostileFake, "empty": emptyFake} {
		for _, prefix := range []string{"", "/ops/a-b"} {
			s := newSite(inspector, prefix)
			for _, address := range addresses {
				if strings.HasPrefix(address, "/queues/") && !strings.Contains(address, "/jobs/") && !strings.Contains(address, "/schedules/") && name != "full" {
					continue // the queue does not exist
				}
				t.Run(name+" "+prefix+address, func(t *testing.T) {
					w := s.get(address)
					require.Equal(t, http.StatusOK, w.Code, w.Body.String())
					checkPage(t, s, address, w)
				})
			}
		}
	}
}

// checkPage checks the rules for all pages.
func checkPage(t *testing.T, s *site, address string, w *httptest.ResponseRecorder) {
	t.Helper()
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	policy := w.Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	page := parse(t, w.Body.String())
	page.one(t, "main", "id", "main")
	page.one(t, "h1")
	assert.Equal(t, "#main", page.all("a")[0].attrs["href"], "the first link must skip the navigation")
	checkHarmless(t, page)
	checkNamed(t, page)
	for _, e := range page {
		for _, attr := range []string{"href", "src", "action"} {
			link, found := e.attrs[attr]
			if !found || link == "#main" {
				continue
			}
			method := http.MethodGet
			if strings.EqualFold(e.attrs["method"], http.MethodPost) {
				method = http.MethodPost
			}
			assert.False(t, strings.HasPrefix(link, "/"), link)
			s.goes(t, method, address, link)
		}
	}
}

// checkHarmless checks that a page contains only the scripts of the site, and nothing inline,
// which the policy would forbid.
func checkHarmless(t *testing.T, page document) {
	t.Helper()
	for _, e := range page {
		assert.NotContains(t, []string{"img", "style", "iframe", "object", "base"}, e.name)
		if e.name == "script" {
			assert.Contains(t, e.attrs["src"], "assets/")
			assert.Empty(t, e.words())
		}
		for attr, value := range e.attrs {
			assert.False(t, attr == "style" || strings.HasPrefix(attr, "on"), "%s %s=%q", e.name, attr, value)
		}
	}
}

// checkNamed checks that IDs are unique, that references to them exist, and that controls
// have names.
func checkNamed(t *testing.T, page document) {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range page {
		if id := e.attrs["id"]; id != "" {
			assert.False(t, ids[id], "ID %q must be unique", id)
			ids[id] = true
		}
	}
	for _, e := range page {
		for _, attr := range []string{"aria-labelledby", "aria-describedby", "for", "form", "list"} {
			for _, id := range strings.Fields(e.attrs[attr]) {
				assert.True(t, ids[id], "%s %s=%q", e.name, attr, id)
			}
		}
		switch e.name {
		case "input", "select":
			labeled := slices.ContainsFunc(page.all("label"), func(l *element) bool { return l.attrs["for"] != "" && l.attrs["for"] == e.attrs["id"] })
			assert.True(t, e.attrs["type"] == "hidden" || e.within("label") != nil || e.attrs["aria-label"] != "" || labeled, "%s %q", e.name, e.attrs)
		case "button", "a", "summary":
			assert.NotEmpty(t, e.words(), "%s %q", e.name, e.attrs)
		case "nav":
			assert.NotEmpty(t, e.attrs["aria-label"])
		case "th":
			assert.NotEmpty(t, e.attrs["scope"])
		case "table":
			group := e.within("div")
			require.NotNil(t, group)
			assert.Equal(t, "0", group.attrs["tabindex"], "scrollable tables must be reachable by keyboard")
		}
	}
}

func TestRoutesAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, route := range newSite(newFake(), "").Routes() {
		assert.NotEmpty(t, route.Description, route.Pattern)
		assert.NotNil(t, route.Handler)
		assert.False(t, seen[route.Mux()])
		seen[route.Mux()] = true
		isOpen := strings.HasPrefix(route.Pattern, "/assets/") || route.Pattern == "/theme"
		assert.Equal(t, isOpen, len(route.Actions) == 0, "%s must be open to every client or list its actions", route.Pattern)
	}
}

func TestOverviewBelowAPrefixWithoutItsSlash(t *testing.T) {
	s := newSite(newFake(), "")
	r := httptest.NewRequest(http.MethodGet, "/ops/admin?last=1h", http.NoBody)
	r.URL.Path = "/" // as after the prefix was removed
	w := s.send(r)
	assert.Equal(t, http.StatusFound, w.Code)
	assert.Equal(t, "./admin/?last=1h", w.Header().Get("Location"))
}

func TestOverview(t *testing.T) {
	page := parse(t, newSite(newFake(), "").get("/").Body.String())
	numbers := page.all("li")
	text := ""
	for _, e := range numbers {
		text += e.words() + "\n"
	}
	assert.Contains(t, text, "Waiting 4,308 123 of them blocked")
	assert.Contains(t, text, "Running 48")
	assert.Contains(t, text, "Failing 4.2% 313 failed for good in 1 hour")
	assert.Contains(t, text, "Oldest pending 52 min in reports")
	assert.Contains(t, page.one(t, "tr", "id", "queue-reports").words(), "paused")
	assert.Contains(t, page.one(t, "p", "class", "notice warn").words(), `No process can run job type "digest" version 2: 12 jobs of mail wait for one that does.`)
	assert.Len(t, page.all("svg", "role", "img"), 5)
	assert.Len(t, page.all("desc"), 5)
	assert.Regexp(t, `^From \d\d:\d\d to \d\d:\d\d UTC: peak at \d\d:\d\d: 1,180; last at \d\d:\d\d: 1,180\.$`, page.one(t, "desc", "id", "backlog-desc").words())
	assert.Regexp(t, `peak at \d\d:\d\d: 20 min; last at \d\d:\d\d: 20 min\.$`, page.one(t, "desc", "id", "oldest-desc").words())
	table := page.one(t, "details", "id", "table-backlog").words()
	assert.Contains(t, table, "UTC–", "nothing was recorded in the first half")
	assert.Contains(t, table, "UTC1,180")
	link := page.all("a", "href", "./jobs?queue=billing&state=failed&type=send-invoice")
	require.NotEmpty(t, link, "a failing type must link to its jobs")
}

func TestEmptyPages(t *testing.T) {
	f := newFake()
	f.empty = true
	s := newSite(f, "")
	for address, text := range map[string]string{
		"/":                  "No queues yet",
		"/jobs":              "No jobs yet",
		"/jobs?state=failed": "Clear the filter",
		"/errors":            "No job has failed",
		"/errors?error=a":    "No failed job matches",
		"/queues":            "No queues yet",
		"/workers":           "No process is known",
		"/schedules":         "No schedule is stored",
		"/schedules?name=a":  "No stored schedule matches",
		"/diagnosis":         "Nothing is wrong with the store",
		"/scopes":            "No scope is held",
		"/scopes?name=a":     "No such scope is held",
		"/audit":             "No actions yet",
	} {
		assert.Contains(t, s.get(address).Body.String(), text, address)
	}
}

func TestErrorPages(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{&management.InvalidArgumentError{Field: "cursor", Value: hostile, Rule: "must be one"}, http.StatusBadRequest, "cursor must be one"},
		{&guard.DeniedError{Access: guard.Access{Action: guard.Read, AllQueues: true}, Reason: errors.New("secret")}, http.StatusForbidden, "read on all queues is not allowed"},
		{amboy.NewJobNotFoundError("no such job"), http.StatusNotFound, "No such job"},
		{management.ErrUnknownQueue, http.StatusNotFound, "No such queue"},
		{&management.StateError{Action: management.Delete, Rule: "requires a job that has ended"}, http.StatusConflict, "requires a job that has ended"},
		{errors.New("dial mongodb://secret"), http.StatusInternalServerError, "Something went wrong"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			s := newSite(&fake{err: c.err}, "/ops")
			for _, address := range []string{"/", "/jobs", "/errors", "/queues", "/queues/a", "/queues/a/jobs/b", "/workers", "/schedules", "/diagnosis", "/scopes", "/audit", "/live"} {
				w := s.get(address)
				assert.Equal(t, c.status, w.Code, address)
				assert.Contains(t, parse(t, w.Body.String()).one(t, "main").words(), c.text)
				assert.NotContains(t, w.Body.String(), "secret")
				checkPage(t, s, address, w)
			}
		})
	}
}

func TestInvalidAddressesAreRefused(t *testing.T) {
	s := newSite(newFake(), "")
	for address, field := range map[string]string{
		"/?unknown=1":                         "unknown",
		"/jobs?queue=a;state=failed":          "query",
		"/jobs?queue=%zz":                     "query",
		"/?last=1y":                           "last",
		"/jobs?nope=1":                        "nope",
		"/jobs?state=happy":                   "state",
		"/jobs?created_from=yesterday":        "created_from",
		"/jobs?error=a&error=b":               "error",
		"/jobs?limit=0":                       "limit",
		"/jobs?limit=1000000000":              "limit",
		"/jobs?order=random":                  "order",
		"/jobs?queue=_x":                      "queue",
		"/errors?state=failed":                "state",
		"/find?queue=a":                       "queue",
		"/errors?error=a&error=b":             "error",
		"/queues?sort=luck":                   "sort",
		"/queues?sort=oldest&cursor=x":        "cursor",
		"/queues/billing/jobs/a?distance=6":   "distance",
		"/queues/billing/jobs/a?distance=far": "distance",
		"/queues/billing/jobs/a%ff":           "id",
		"/queues/billing?x=1":                 "x",
		"/workers?x=1":                        "x",
		"/schedules?x=1":                      "x",
		"/schedules?queue=_x":                 "queue",
		"/schedules/new?x=1":                  "x",
		"/queues/billing/schedules/a?x=1":     "x",
		"/diagnosis?x=1":                      "x",
		"/scopes?x=1":                         "x",
		"/audit?x=1":                          "x",
		"/live?x=1":                           "x",
	} {
		w := s.get(address)
		assert.Equal(t, http.StatusBadRequest, w.Code, address)
		assert.Contains(t, parse(t, w.Body.String()).one(t, "main").words(), field+" ", address)
	}
	assert.Equal(t, http.StatusNotFound, s.get("/assets/none.css").Code)
	assert.Equal(t, http.StatusNotFound, s.get("/assets/vendor/manifest.json").Code)
}

// TestNamesInPaths follows the link to each job as a browser does, which resolves "%2E%2E" as
// the parent directory.
func TestNamesInPaths(t *testing.T) {
	const from = "/queues/billing/jobs/x"
	asked := &oneJob{fake: newFake()}
	s := newSite(asked, "/ops")
	for _, queue := range []string{"", "a", "_", "_a", ".", "..", "_..", "__.", "a/b", "a b", "ü%2F", "?#&", "\x01\n", "a:b"} {
		for _, id := range []string{"a", "_", ".", "..", "_..", "__.", "a/../b", " ", "ü", "%2e%2e", "javascript:x", "\x01\n"} {
			asked.ref = management.JobRef{Queue: queue, ID: id}
			form := parse(t, s.get(from).Body.String()).all("form", "method", "post")[0]
			address := strings.TrimSuffix(s.goes(t, http.MethodPost, from, form.attrs["action"]), "/actions")
			asked.asked = management.JobRef{}
			require.Equal(t, http.StatusOK, s.get(address).Code, "%q", asked.ref)
			assert.Equal(t, asked.ref, asked.asked, address)
			for _, part := range strings.Split(address, "/")[1:] {
				assert.NotContains(t, []string{"", ".", ".."}, strings.ReplaceAll(strings.ToLower(part), "%2e", "."), "%q", asked.ref)
			}
		}
	}
}

// oneJob returns the same job for every ID, and records the requested one.
type oneJob struct {
	*fake
	ref, asked management.JobRef
}

func (o *oneJob) Job(ctx context.Context, queue, id string) (management.Job, error) {
	o.asked = management.JobRef{Queue: queue, ID: id}
	job, err := o.fake.Job(ctx, queue, id)
	job.JobRef = o.ref
	return job, err
}

// shows returns a job with given arguments and result.
type shows struct {
	*fake
	args   json.RawMessage
	hidden string
}

func (s shows) Job(ctx context.Context, queue, id string) (management.Job, error) {
	job, err := s.fake.Job(ctx, queue, id)
	job.Args, job.ResultHidden = s.args, s.hidden
	return job, err
}

// withOutsideWorker has an outside worker, which reports neither its host nor when it started.
type withOutsideWorker struct{ *fake }

func (f withOutsideWorker) Processes(context.Context) ([]management.Process, error) {
	return []management.Process{{ID: "outside-a/python", Seen: f.ago(time.Minute), Alive: true, Running: f.jobs()[:1], RunningCount: management.Count{Count: 1}}}, nil
}

// It was shown as PID 0 of no host, without queues.
func TestAnOutsideWorkerIsShownByItsID(t *testing.T) {
	body := siteOf(dashboard.Options{Inspector: func(*http.Request) management.Inspector { return withOutsideWorker{newFake()} }}, "").get("/workers").Body.String()
	assert.Contains(t, body, `<h2 id="process-0"><bdi>outside-a/python</bdi></h2>`)
	assert.Contains(t, body, "<dt>Lease renewed</dt>")
	for _, absent := range []string{"PID", "<dt>Started</dt>", "<dt>Queues</dt>"} {
		assert.NotContains(t, body, absent)
	}
}

// TestArgumentsAreIndented compares the displayed arguments with the output of json.Indent.
func TestArgumentsAreIndented(t *testing.T) {
	for _, args := range []string{
		`{}`, `[]`, `0`, `"a\"b\\"`, `[{}, [ ], {"a:b,c":"[{\"}]","d":[1,-2.5e3,true,null]}, "\u00fc"]`,
	} {
		page := parse(t, newSite(shows{newFake(), json.RawMessage(args), ""}, "").get("/queues/a/jobs/b").Body.String())
		var want bytes.Buffer
		require.NoError(t, json.Indent(&want, []byte(args), "", "  "))
		assert.Equal(t, want.String(), page.one(t, "pre", "class", "json").text.String())
	}
}

// An address in arguments was shown, and filled in to be edited, with "\u0026" for "&".
func TestArgumentsWereShownWithEscapesOfHTML(t *testing.T) {
	inspector := shows{newFake(), json.RawMessage(`{"url":"https://example.org/?a=1\u0026b=\u003c2\u003e"}`), ""}
	page := parse(t, newSite(inspector, "").get("/queues/a/jobs/b").Body.String())
	assert.Contains(t, page.one(t, "pre", "class", "json").text.String(), "https://example.org/?a=1&b=<2>")
}

// TestDeepArgumentsMakeNoLargePage shows a megabyte of nested arrays. Indenting all of it
// would take a gigabyte.
func TestDeepArgumentsMakeNoLargePage(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	args := "[" + strings.Repeat(deep+",", 500) + "0]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := newSite(shows{newFake(), json.RawMessage(args), ""}, "").get("/queues/a/jobs/b")
	runtime.ReadMemStats(&after)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "1,000,503 bytes in all")
	assert.Less(t, w.Body.Len(), 200_000)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50_000_000))
}

func TestHiddenResultIsShownAsHidden(t *testing.T) {
	page := parse(t, newSite(shows{newFake(), nil, "masked"}, "").get("/queues/a/jobs/b").Body.String())
	words := page.one(t, "main").words()
	assert.Contains(t, words, "Result Not shown: masked.")
	assert.NotContains(t, words, "Result None.")
}

// The latest attempt of the fake's job was due 9 minutes ago, put by a retry, and started 4 minutes ago.
func TestAttemptsShowHowLongTheyWaitedAndRan(t *testing.T) {
	page := parse(t, newSite(newFake(), "").get("/queues/billing/jobs/a").Body.String())
	words := page.one(t, "main").words()
	assert.Contains(t, words, "1 ✗ failed 14 min ago 13 min ago 1 min 12 min ago 1 min host-1-11aa")
	assert.Contains(t, words, "3 ✗ failed 9 min ago 4 min ago 5 min 3 min ago 10 s host-3-7f2c")
}
