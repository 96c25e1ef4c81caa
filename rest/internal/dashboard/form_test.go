package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/dashboard"
)

// lands returns the address that an answer redirects to, without what it tells the page.
func lands(t *testing.T, s *site, from string, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	location := w.Header().Get("Location")
	require.NotContains(t, location, "://")
	require.False(t, strings.HasPrefix(location, "/"), location)
	landed := s.goes(t, http.MethodGet, from, location)
	if parts := toldPattern.FindStringSubmatch(landed); parts != nil {
		s.told = parts[1]
	}
	return toldPattern.ReplaceAllString(landed, "")
}

// toldPattern finds what a redirect tells its page, which is random.
var toldPattern = regexp.MustCompile("&told=([A-Z2-7]+)")

// TestRetryAllFailedJobsOfAType retries them through the forms, without scripts.
func TestRetryAllFailedJobsOfAType(t *testing.T) {
	f := newFake()
	s := newSite(f, "/ops")
	list := parse(t, s.get("/jobs?queue=billing&state=failed&type=send-invoice").Body.String())
	assert.Equal(t, "150 jobs found", list.one(t, "h2", "id", "found").words())
	act := list.one(t, "form", "id", "act")
	form := list.fields(act, "all")
	form.Set("action", "retry")
	w := s.post(s.goes(t, http.MethodPost, "/jobs", act.attrs["action"]), form)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	checkPage(t, s, "/jobs/actions", w)
	preview := parse(t, w.Body.String())
	assert.Equal(t, "1,084", preview.one(t, "strong", "id", "would-done").words())
	assert.Equal(t, "120", preview.one(t, "strong", "id", "would-skip").words())
	assert.Equal(t, "Of these: 1 ◷ scheduled, 1,083 ✗ failed.", preview.one(t, "p", "id", "would-states").words())
	assert.Contains(t, preview.one(t, "p", "id", "would-early").words(), "1 scheduled job would start before its time")
	listed := f.filters[len(f.filters)-1]
	assert.Equal(t, []amboy.JobState{amboy.StateScheduled, amboy.StateFailed}, listed.States, "it lists only jobs that would change")
	want := management.JobFilter{Queues: []string{"billing"}, States: []amboy.JobState{amboy.StateFailed}, Types: []string{"send-invoice"}}
	for _, req := range f.acts {
		assert.True(t, req.DryRun)
		assert.Equal(t, want, req.Filter)
	}
	f.acts = nil

	do := preview.one(t, "form", "id", "do")
	w = s.post("/jobs/actions", preview.fields(do, ""))
	landed := lands(t, s, "/jobs/actions", w)
	assert.Equal(t, "/jobs?did=retry&done=1084&skipped=120&queue=billing&state=failed&type=send-invoice", landed)
	done := 0
	for _, req := range f.acts {
		assert.False(t, req.DryRun)
		assert.Equal(t, want, req.Filter)
		assert.Equal(t, management.Retry, req.Kind)
		done++
	}
	assert.Equal(t, 3, done, "the action is done in steps")
	assert.Contains(t, s.get(landed+"&told="+s.told).Body.String(), "1,084 jobs were scheduled to run again; 120 jobs were left unchanged.")
}

func TestActOnSelectedJobs(t *testing.T) {
	f := newFake()
	s := newSite(f, "")
	form := url.Values{
		"step": {"do"}, "which": {"picked"}, "action": {"park"}, "reason": {"bad data"}, "at": {""}, "priority": {"0"},
		"pick": {"billing/a%2Fb", "mail/x", "billing/y", "_/z"},
		"type": {"ignored"}, // the filter of the list is kept, and not used
	}
	w := s.post("/jobs/actions", form)
	assert.Equal(t, "/jobs?did=park&done=4&skipped=0&type=ignored", lands(t, s, "/jobs/actions", w))
	require.Len(t, f.acts, 3)
	assert.Equal(t, management.JobFilter{Queues: []string{"billing"}, IDs: []string{"a/b", "y"}}, f.acts[0].Filter)
	assert.Equal(t, management.JobFilter{Queues: []string{"mail"}, IDs: []string{"x"}}, f.acts[1].Filter)
	assert.Equal(t, management.JobFilter{Queues: []string{""}, IDs: []string{"z"}}, f.acts[2].Filter)
	assert.Equal(t, management.Action{Kind: management.Park, Reason: "bad data"}, f.acts[0].Action)
}

func TestRetryWithoutDependencies(t *testing.T) {
	f := newFake()
	s := newSite(f, "")
	list := parse(t, s.get("/jobs?state=failed").Body.String())
	form := list.fields(list.one(t, "form", "id", "act"), "all")
	form.Set("action", "retry")
	form.Set("ignore_dependencies", list.one(t, "input", "name", "ignore_dependencies").attrs["value"])
	w := s.post("/jobs/actions", form)
	checkPage(t, s, "/jobs/actions", w)
	preview := parse(t, w.Body.String())
	assert.Contains(t, w.Body.String(), "<dt>Dependencies</dt><dd>ignored</dd>")
	f.acts = nil
	lands(t, s, "/jobs/actions", s.post("/jobs/actions", preview.fields(preview.one(t, "form", "id", "do"), "")))
	assert.Equal(t, management.Action{Kind: management.Retry, IgnoreDependencies: true}, f.acts[0].Action)

	w = s.get("/queues/billing/jobs/a")
	page := parse(t, w.Body.String())
	for _, e := range page.all("form") {
		if fields := page.fields(e, ""); fields.Has("ignore_dependencies") {
			lands(t, s, "/queues/billing/jobs/a", s.post("/queues/billing/jobs/a/actions", fields))
		}
	}
	assert.Equal(t, []management.Action{{Kind: management.Retry, IgnoreDependencies: true}}, f.actions)
	assert.NotContains(t, s.get("/queues/billing/jobs/close-month").Body.String(), "ignore_dependencies", "it has not ended")
}

// TestManyJobsTakeSeveralRequests sends the form of each answer until the action has ended.
func TestManyJobsTakeSeveralRequests(t *testing.T) {
	f := newFake()
	f.many = 25_000
	s := newSite(f, "/ops")
	form := url.Values{"step": {"do"}, "which": {"all"}, "action": {"cancel"}, "state": {"pending"}}
	requests := 0
	w := s.post("/jobs/actions", form)
	for ; w.Code == http.StatusOK; requests++ {
		page := parse(t, w.Body.String())
		w = s.post("/jobs/actions", page.fields(page.one(t, "form", "id", "do"), ""))
	}
	assert.Equal(t, 2, requests)
	assert.Equal(t, "/jobs?did=cancel&done=22500&skipped=2500&state=pending", lands(t, s, "/jobs/actions", w))
}

// slow takes a second for each call of Act.
type slow struct{ *fake }

func (s slow) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	time.Sleep(time.Second)
	return s.fake.Act(ctx, req)
}

func TestPreviewOfManyJobsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.many = 10_000_000
		begun := time.Now()
		w := newSite(slow{f}, "").post("/jobs/actions", url.Values{"step": {"preview"}, "which": {"all"}, "action": {"delete"}})
		assert.Equal(t, 2*time.Second, time.Since(begun))
		assert.Contains(t, w.Body.String(), "this preview did not read all of them")
		assert.Contains(t, w.Body.String(), "Delete: all that match")
	})
}

func TestActOnAJob(t *testing.T) {
	ten := 10
	for _, c := range []struct {
		form url.Values
		want management.Action
	}{
		{url.Values{"action": {"retry"}}, management.Action{Kind: management.Retry}},
		{url.Values{"action": {"retry"}, "ignore_dependencies": {"true"}}, management.Action{Kind: management.Retry, IgnoreDependencies: true}},
		{url.Values{"action": {"cancel"}, "reason": {"why"}}, management.Action{Kind: management.Cancel, Reason: "why"}},
		{url.Values{"action": {"reschedule"}, "at": {"2027-01-02T03:04"}}, management.Action{Kind: management.Reschedule, At: time.Date(2027, 1, 2, 3, 4, 0, 0, time.UTC)}},
		{url.Values{"action": {"prioritize"}, "priority": {"10"}}, management.Action{Kind: management.Prioritize, Priority: &ten}},
		{url.Values{"action": {"complete"}}, management.Action{Kind: management.Complete}},
	} {
		f := newFake()
		s := newSite(f, "/ops")
		const address = "/queues/billing/jobs/a%2Fb/actions"
		landed := lands(t, s, address, s.post(address, c.form))
		assert.Equal(t, fmt.Sprintf("/queues/billing/jobs/a%%2Fb?did=%s&done=1&skipped=0", c.want.Kind), landed)
		assert.Equal(t, []management.Action{c.want}, f.actions)
		assert.Len(t, parse(t, s.get(landed+"&told="+s.told).Body.String()).all("p", "id", "notice"), 1)
	}
}

func TestDeleteMustBeConfirmed(t *testing.T) {
	f := newFake()
	s := newSite(f, "/ops")
	const address = "/queues/billing/jobs/a/actions"
	w := s.post(address, url.Values{"action": {"delete"}})
	require.Equal(t, http.StatusOK, w.Code)
	checkPage(t, s, address, w)
	require.Empty(t, f.actions)
	page := parse(t, w.Body.String())
	form := page.all("form", "method", "post")[0]
	w = s.post(s.goes(t, http.MethodPost, address, form.attrs["action"]), page.fields(form, ""))
	assert.Equal(t, "/jobs?did=delete&done=1&skipped=0", lands(t, s, address, w))
	assert.Equal(t, []management.Action{{Kind: management.Delete}}, f.actions)
}

func TestPagesOfferOnlyAllowedActions(t *testing.T) {
	f := newFake()
	s := siteOf(dashboard.Options{
		Inspector: func(*http.Request) management.Inspector { return f },
		Allowed:   func(_ *http.Request, action, _ string) bool { return action == "retry" },
	}, "")
	var buttons []string
	for _, e := range parse(t, s.get("/queues/billing/jobs/failed").Body.String()).all("button", "name", "action") {
		buttons = append(buttons, e.attrs["value"])
	}
	assert.Equal(t, []string{"retry"}, buttons, "delete is not allowed")
	assert.Empty(t, parse(t, s.get("/queues/billing").Body.String()).all("button", "id", "pause"))
	assert.Len(t, parse(t, s.get("/jobs").Body.String()).all("option", "value", "retry"), 1)
	assert.Empty(t, parse(t, s.get("/jobs").Body.String()).all("option", "value", "delete"))
}

func ofType(jobType string, limit amboy.TypeLimit) management.ControlChange {
	return management.ControlChange{TypeLimit: &management.TypeLimitChange{Type: jobType, TypeLimit: limit}}
}

func TestControl(t *testing.T) {
	yes, no, five := true, false, 5
	for _, c := range []struct {
		form url.Values
		want management.ControlChange
	}{
		{url.Values{"paused": {"true"}}, management.ControlChange{Paused: &yes}},
		{url.Values{"paused": {"false"}}, management.ControlChange{Paused: &no}},
		{url.Values{"draining": {"true"}}, management.ControlChange{Draining: &yes}},
		{url.Values{"max_running": {"5"}}, management.ControlChange{MaxRunning: &five}},
		{url.Values{"workers": {"5"}}, management.ControlChange{Workers: &five}},
		{url.Values{"rate": {"0.1"}, "burst": {""}}, management.ControlChange{Rate: &amboy.Rate{PerSecond: 0.1}}},
		{url.Values{"rate": {"100"}, "burst": {"5"}}, management.ControlChange{Rate: &amboy.Rate{PerSecond: 100, Burst: 5}}},
		{url.Values{"no_rate": {"true"}}, management.ControlChange{NoRate: true}},
		{
			url.Values{"type": {"letter"}, "max_running": {"5"}, "rate": {"0.1"}, "burst": {""}},
			ofType("letter", amboy.TypeLimit{MaxRunning: 5, Rate: &amboy.Rate{PerSecond: 0.1}}),
		},
		{url.Values{"type": {"letter"}, "max_running": {""}, "rate": {""}, "burst": {""}}, ofType("letter", amboy.TypeLimit{})},
	} {
		f := newFake()
		s := newSite(f, "/ops")
		landed := lands(t, s, "/queues/billing/control", s.post("/queues/billing/control", c.form))
		assert.Equal(t, "/queues/billing?did=control&done=1&skipped=0", landed)
		assert.Equal(t, []management.ControlChange{c.want}, f.controls)
	}
}

func TestInvalidFormsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	manyPicks := slices.Repeat([]string{"a/b"}, management.MaxFilterValues+1)
	for _, c := range []struct {
		address string
		form    url.Values
		status  int
		field   string
	}{
		{"/jobs/actions", url.Values{}, 400, "action"},
		{"/jobs/actions", url.Values{"action": {"retry"}}, 400, "which"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"all"}}, 400, "step"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "ignore_dependencies": {"maybe"}, "which": {"all"}, "step": {"do"}}, 400, "ignore_dependencies"},
		{"/jobs/actions", url.Values{"action": {"explode"}, "which": {"all"}, "step": {"do"}}, 400, "action"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"picked"}, "step": {"do"}}, 400, "pick"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"picked"}, "step": {"do"}, "pick": {"x"}}, 400, "pick"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"picked"}, "step": {"do"}, "pick": {"a/%zz"}}, 400, "pick"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"picked"}, "step": {"do"}, "pick": manyPicks}, 400, "pick"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"all"}, "step": {"do"}, "part": {"-1"}}, 400, "part"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"all"}, "step": {"do"}, "cursor": {"bad"}}, 400, "cursor"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "which": {"all"}, "step": {"do"}, "state": {"happy"}}, 400, "state"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "extra": {"1"}}, 400, "extra"},
		{"/jobs/actions", url.Values{"action": {"retry"}, "error": {long}}, 413, "A form must be"},
		{"/queues/a/jobs/b/actions", url.Values{"action": {"reschedule"}}, 400, "at"},
		{"/queues/a/jobs/b/actions", url.Values{"action": {"reschedule"}, "at": {"soon"}}, 400, "at"},
		{"/queues/a/jobs/b/actions", url.Values{"action": {"prioritize"}, "priority": {"high"}}, 400, "priority"},
		{"/queues/a/jobs/b/actions", url.Values{"action": {"retry"}, "x": {"1"}}, 400, "x"},
		{"/queues/a/jobs/running/actions", url.Values{"action": {"delete"}, "confirmed": {"yes"}}, 409, "requires a job that has ended"},
		{"/queues/a/control", url.Values{}, 400, "paused"},
		{"/queues/a/control", url.Values{"paused": {"maybe"}}, 400, "paused"},
		{"/queues/a/control", url.Values{"workers": {"many"}}, 400, "workers"},
		{"/queues/a/control", url.Values{"rate": {"fast"}}, 400, "rate"},
		{"/queues/a/control", url.Values{"rate": {"1"}, "burst": {"many"}}, 400, "burst"},
		{"/queues/a/control", url.Values{"burst": {"3"}}, 400, "burst"},
		{"/queues/a/control", url.Values{"no_rate": {"maybe"}}, 400, "no_rate"},
		{"/queues/a/control", url.Values{"type": {"letter"}, "workers": {"3"}}, 400, "can only have max_running, rate and burst"},
		{"/queues/a/control", url.Values{"x": {"1"}}, 400, "x"},
		{"/theme", url.Values{"theme": {"pink"}}, 400, "theme"},
		{"/theme", url.Values{"theme": {"dark"}, "back": {"//evil.example.com"}}, 400, "back"},
		{"/theme", url.Values{"theme": {"dark"}, "back": {"../../x"}}, 400, "back"},
		{"/theme", url.Values{"theme": {"dark"}, "back": {"jobs/%2E./x"}}, 400, "back"},
		{"/theme", url.Values{"theme": {"dark"}, "back": {`\evil`}}, 400, "back"},
		{"/theme", url.Values{"theme": {"dark"}, "back": {long[:1<<14]}}, 400, "back"},
	} {
		f := newFake()
		w := newSite(f, "").post(c.address, c.form)
		assert.Equal(t, c.status, w.Code, "%s %v", c.address, c.field)
		assert.Contains(t, parse(t, w.Body.String()).one(t, "main").words(), c.field)
		assert.Empty(t, f.controls)
		for _, act := range f.acts {
			assert.NotEmpty(t, act.Cursor, "only the call with a bad cursor reaches the inspector")
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/jobs/actions", strings.NewReader(`{"action":"retry"}`))
	r.Header.Set("Content-Type", "application/json")
	assert.Equal(t, http.StatusUnsupportedMediaType, newSite(newFake(), "").send(r).Code)
}

func TestErrorPageReportsHowManyJobsWereChanged(t *testing.T) {
	f := newFake()
	w := newSite(failsLater{f}, "").post("/jobs/actions", url.Values{"step": {"do"}, "which": {"all"}, "action": {"retry"}})
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Contains(t, w.Body.String(), "450 jobs were changed before the error.")
}

// failsLater fails in the second call of Act.
type failsLater struct{ *fake }

func (f failsLater) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if req.Cursor != "" {
		return management.Acted{}, fmt.Errorf("the store is unavailable")
	}
	return f.fake.Act(ctx, req)
}

// A call of Act that fails may have changed some jobs before.
func TestErrorPageLeftOutTheJobsThatTheFailedCallChanged(t *testing.T) {
	w := newSite(failsBetween{newFake()}, "").post("/jobs/actions", url.Values{
		"step": {"do"}, "which": {"all"}, "action": {"cancel"}, "done": {"400"}, "cursor": {"500"},
	})
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Contains(t, w.Body.String(), "430 jobs were changed before the error.")
}

// failsBetween fails after some of the jobs.
type failsBetween struct{ *fake }

func (failsBetween) Act(context.Context, management.ActRequest) (management.Acted, error) {
	return management.Acted{Done: 30}, fmt.Errorf("the store is unavailable")
}

func TestTheme(t *testing.T) {
	s := newSite(newFake(), "/ops")
	page := parse(t, s.get("/queues/billing/jobs/a..%2F..%2Fb?distance=3&did=retry").Body.String())
	assert.Empty(t, page.one(t, "html").attrs["data-theme"])
	form := page.one(t, "form", "class", "themes")
	w := s.post("/theme", page.fields(form, "dark"))
	assert.Equal(t, "/queues/billing/jobs/a..%2F..%2Fb?distance=3", lands(t, s, "/theme", w))
	cookies := w.Result().Cookies() //nolint:bodyclose // There is no body.
	require.Len(t, cookies, 1)
	assert.Empty(t, cookies[0].Path, "the browser uses the directory, with the prefix")
	assert.True(t, cookies[0].HttpOnly)

	r := httptest.NewRequest(http.MethodGet, "/ops/", http.NoBody)
	r.AddCookie(cookies[0])
	page = parse(t, s.send(r).Body.String())
	assert.Equal(t, "dark", page.one(t, "html").attrs["data-theme"])
	assert.Equal(t, "true", page.one(t, "button", "value", "dark").attrs["aria-pressed"])
}

func TestFormShowsTheFilterOfTheAddress(t *testing.T) {
	const address = "/jobs?queue=_&queue=b&state=failed&type=a&tag=b&tag=c&id=d&id_pattern=x*&id_part=P&type_part=T&tag_part=G&error=e&scope=s&created_from=2026-01-02T03:04:00&ended_to=2026-01-02T03:04:05&order=oldest&limit=100"
	f := newFake()
	page := parse(t, newSite(f, "").get(address).Body.String())
	sent := page.fields(page.one(t, "form", "id", "filter"), "")
	for name, values := range sent {
		if strings.Join(values, "") == "" {
			delete(sent, name)
		}
	}
	want, err := url.ParseQuery(strings.TrimPrefix(address, "/jobs?"))
	require.NoError(t, err)
	assert.Equal(t, "oldest", page.one(t, "select", "name", "order").selected(page))
	assert.Equal(t, "100", page.one(t, "select", "name", "limit").selected(page))
	want.Del("order")
	want.Del("limit")
	assert.Equal(t, want, sent)
	assert.Equal(t, []string{"", "b"}, f.filters[0].Queues)
	assert.Equal(t, management.PageRequest{Limit: 100, Args: true}, f.pages[0])
	next := page.one(t, "a", "rel", "next").attrs["href"]
	assert.Contains(t, next, "cursor=c2")
	assert.Contains(t, next, "order=oldest")
	assert.Contains(t, next, "tag=b&tag=c")
}

// selected returns the value of the selected option of a select.
func (e *element) selected(d document) string {
	for _, option := range d.all("option") {
		if _, chosen := option.attrs["selected"]; chosen && option.within("select") == e {
			if value := option.attrs["value"]; value != "" {
				return value
			}
			return option.words()
		}
	}
	return ""
}

// A link to a page with a message that no form has caused shows none: it could make an operator
// believe that jobs were deleted.
func TestAttackALinkForgesAMessage(t *testing.T) {
	s := newSite(newFake(), "")
	forged := "/jobs?did=delete&done=1204&skipped=0"
	for _, address := range []string{forged, forged + "&told=", forged + "&told=AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		assert.Empty(t, parse(t, s.get(address).Body.String()).all("p", "id", "notice"), address)
	}
	lands(t, s, "/queues/billing/control", s.post("/queues/billing/control", url.Values{"paused": {"true"}}))
	assert.Empty(t, parse(t, s.get(forged+"&told=AAAAAAAAAAAAAAAAAAAAAAAAAA").Body.String()).all("p", "id", "notice"))
	for name, cookie := range s.cookies {
		assert.True(t, cookie.HttpOnly, name)
		assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite, name)
	}
}

func TestEditAJob(t *testing.T) {
	f := newFake()
	s := newSite(f, "/ops")
	const job = "/queues/billing/jobs/close-month"
	page := parse(t, s.get(job).Body.String())
	edit := page.one(t, "a", "href", "../../../queues/billing/jobs/close-month/edit")
	w := s.get(s.goes(t, http.MethodGet, job, edit.attrs["href"]))
	checkPage(t, s, job+"/edit", w)
	page = parse(t, w.Body.String())
	form := page.fields(page.one(t, "form", "aria-label", "Edit"), "")
	assert.Equal(t, "7", form.Get("revision"))
	assert.Equal(t, form.Get("due_was"), form.Get("due"))
	form.Set("args", `{"to": "bob"}`)

	w = s.post(job+"/edit", form)
	checkPage(t, s, job+"/edit", w)
	page = parse(t, w.Body.String())
	assert.Contains(t, page.one(t, "dl", "id", "changes").words(), `args now { "to": "ann" } then { "to": "bob" }`)
	landed := lands(t, s, job+"/edit", s.post(job+"/edit", page.fields(page.one(t, "form", "id", "do"), "")))
	assert.Equal(t, job+"?did=edit&done=1&skipped=0", landed)
	assert.Contains(t, s.get(landed+"&told="+s.told).Body.String(), "The job was changed.")
	require.Len(t, f.edits, 2)
	assert.True(t, f.edits[0].DryRun)
	f.edits[0].DryRun = false
	assert.Equal(t, f.edits[0], f.edits[1])
	assert.Equal(t, "7", f.edits[1].Revision)
	assert.Nil(t, f.edits[1].Due, "a time that was not touched stays, with its fraction of a second")

	form.Set("due", "")
	s.post(job+"/edit", form)
	assert.True(t, f.edits[2].Due.IsZero())
	form.Set("args", "{\n\"to\": \n}")
	w = s.post(job+"/edit", form)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "in line 3")
}

// A browser sends a time without seconds that are 0. The job lost the fraction of a second of its time.
func TestAnEditOfThePriorityChangedTheTimeToo(t *testing.T) {
	f := newFake()
	form := url.Values{"step": {"do"}, "priority": {"3"}, "due": {"2026-11-30T10:00"}, "due_was": {"2026-11-30T10:00:00"}}
	require.Equal(t, http.StatusSeeOther, newSite(f, "").post("/queues/billing/jobs/close-month/edit", form).Code)
	require.Len(t, f.edits, 1)
	assert.Nil(t, f.edits[0].Due)
}

func TestCopyAJob(t *testing.T) {
	f := newFake()
	s := siteOf(dashboard.Options{
		Inspector:   func(*http.Request) management.Inspector { return f },
		CreateTypes: []string{"send-invoice"}, CreateOutside: true,
	}, "")
	page := parse(t, s.get("/queues/billing/jobs/a%2Fb").Body.String())
	address := s.goes(t, http.MethodGet, "/queues/billing/jobs/a%2Fb", page.one(t, "a", "href", "../../../queues/billing/create?like=a%2fb").attrs["href"])
	w := s.get(address)
	checkPage(t, s, address, w)
	page = parse(t, w.Body.String())
	create := page.one(t, "form", "aria-label", "Create")
	form := page.fields(create, "")
	for _, e := range page.all("textarea") {
		form.Set(e.attrs["name"], e.text.String())
	}
	landed := lands(t, s, address, s.post("/queues/billing/create", form))
	assert.Equal(t, "/queues/billing/jobs/made-up?did=create&done=1&skipped=0", landed)
	require.Len(t, f.created, 1)
	created := f.created[0]
	assert.Equal(t, "send-invoice", created.Type)
	assert.Equal(t, 10, created.Priority)
	assert.Equal(t, []string{"customer:77", "monthly"}, created.Tags)
	assert.Contains(t, string(created.Args), `"invoice": 4711`)
	assert.False(t, created.Outside)
	form.Set("type", "unknown here")
	s.post("/queues/billing/create", form)
	assert.True(t, f.created[1].Outside)
}

// The forms had the beginning of such arguments, which is no JSON: no edit of the job was accepted.
func TestFormsHadABeginningOfArgumentsThatAreLongerIndented(t *testing.T) {
	args := json.RawMessage("[" + strings.Repeat("1,", 20_000) + "1]") // 40 kB, or 100 kB indented
	s := siteOf(dashboard.Options{
		Inspector:   func(*http.Request) management.Inspector { return shows{newFake(), args, ""} },
		CreateTypes: []string{"send-invoice"},
	}, "")
	const job = "/queues/billing/jobs/close-month"
	assert.NotContains(t, s.get(job).Body.String(), "create?like=")
	assert.Equal(t, http.StatusConflict, s.get("/queues/billing/create?like=close-month").Code)
	page := parse(t, s.get(job+"/edit").Body.String())
	assert.Empty(t, page.all("textarea"))
	form := page.fields(page.one(t, "form", "aria-label", "Edit"), "")
	form.Set("priority", "3")
	assert.Equal(t, http.StatusOK, s.post(job+"/edit", form).Code)
}

// A second click while the answer to the first was under way put a second job.
func TestAFormThatWasSentTwicePutTwoJobs(t *testing.T) {
	f := newFake()
	s := newSite(f, "")
	const create, schedule = "/queues/billing/create", "/queues/mail/schedules/reminder"
	for _, form := range []struct{ page, to, label, did string }{
		{create, create, "Create", "create"},
		{schedule, schedule, "Actions", "schedule-triggered"},
	} {
		w := s.get(form.page)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"), "a page that is opened again has another key")
		page := parse(t, w.Body.String())
		fields := page.fields(page.one(t, "form", "aria-label", form.label), "trigger")
		fields.Set("type", "send")
		if form.to == schedule {
			fields = url.Values{"key": fields["key"], "do": {"trigger"}}
		}
		require.NotEmpty(t, fields.Get("key"))
		assert.Contains(t, lands(t, s, form.page, s.post(form.to, fields)), "?did="+form.did+"&")
		again := lands(t, s, form.page, s.post(form.to, fields))
		assert.Contains(t, again, "?did=sent-before&")
		assert.Contains(t, s.get(again+"&told="+s.told).Body.String(), "The form was sent more than once.")
	}
	assert.Equal(t, f.created[0].IdempotencyKey, f.created[1].IdempotencyKey)
}

// The form of an action dropped fractions of seconds, and selected jobs that the list did not show.
func TestActionOnAListSelectedJobsOutsideOfItsTimes(t *testing.T) {
	f := newFake()
	s := newSite(f, "")
	list := parse(t, s.get("/jobs?ended_from=2026-01-31T12:00:00.25Z&ended_to=2026-01-31T12:00:01.000000001Z").Body.String())
	shown := f.filters[len(f.filters)-1]
	form := list.fields(list.one(t, "form", "id", "act"), "all")
	form.Set("action", "delete")
	require.Equal(t, http.StatusOK, s.post("/jobs/actions", form).Code)
	require.NotEmpty(t, f.acts)
	assert.Equal(t, shown.Ended, f.acts[0].Filter.Ended)
}
