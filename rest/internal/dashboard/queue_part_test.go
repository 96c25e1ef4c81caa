package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/management"
)

// A part of the name of a queue in the box of a list found nothing: it had to be the whole name.
func TestPartOfTheNameOfAQueueFoundNothing(t *testing.T) {
	s := newSite(newFake(), "/ops")
	for address, want := range map[string]string{
		"/jobs?queue_part=BILL&state=failed": "./jobs?queue=billing&state=failed",
		"/jobs?queue_part=nant-1":            "./jobs?queue=tenant-10&queue=tenant-11",
		"/errors?queue_part=mail&error=x":    "./errors?error=x&queue=mail",
		"/scopes?queue_part=repo&name=":      "./scopes?name=&queue=reports",
		"/schedules?queue_part=nant-1":       "./schedules?queue=tenant-10&queue=tenant-11",
	} {
		w := s.get(address)
		assert.Equal(t, http.StatusSeeOther, w.Code, address)
		assert.Equal(t, want, w.Header().Get("Location"), address)
		assert.Equal(t, http.StatusOK, s.get("/"+w.Header().Get("Location")[2:]).Code, address)
	}
	for _, address := range []string{"/jobs", "/errors", "/scopes", "/schedules"} {
		assert.Equal(t, http.StatusOK, s.get(address+"?queue_part=").Code, "a form that was not filled in")
		box := parse(t, s.get(address).Body.String()).one(t, "input", "name", "queue_part")
		assert.Equal(t, "search", box.attrs["type"], address)
		w := s.get(address + "?queue_part=nobody")
		assert.Equal(t, http.StatusBadRequest, w.Code, address)
		assert.Contains(t, w.Body.String(), "no queue")
	}
}

// The page of the audit list could not be filtered, although the API and the command line can.
func TestAuditListHadToBeReadInFull(t *testing.T) {
	f := newFake()
	s := newSite(f, "/ops")
	page := parse(t, s.get("/audit?queue=billing&actor=ana@example.com&what=control&job=x").Body.String())
	assert.Equal(t, []management.AuditFilter{{Queues: []string{"billing"}, Actors: []string{"ana@example.com"}, What: []string{"control"}, JobID: "x"}}, f.audits)
	assert.Equal(t, "billing", page.one(t, "input", "name", "queue").attrs["value"])
	assert.Equal(t, "ana@example.com", page.one(t, "input", "name", "actor").attrs["value"])
	assert.Equal(t, "x", page.one(t, "input", "name", "job").attrs["value"])
	assert.Contains(t, page.one(t, "option", "value", "control").attrs, "selected")
	assert.NotEmpty(t, page.all("a", "href", "./audit?actor=ana%40example.com"), "an actor leads to what it did")
	assert.Equal(t, "./audit?queue=mail", s.get("/audit?queue_part=mail").Header().Get("Location"))

	f.empty = true
	assert.Contains(t, s.get("/audit?what=retry").Body.String(), "No such action")
}

func TestNameOfAScopeHadToBeWhole(t *testing.T) {
	f := newFake()
	s := newSite(f, "")
	page := parse(t, s.get("/scopes?part=CUSTOM").Body.String())
	assert.Equal(t, "CUSTOM", page.one(t, "input", "name", "part").attrs["value"])
	assert.Equal(t, []management.ScopeFilter{{Part: "CUSTOM"}}, f.scopes)
	next := page.all("a", "href", "./scopes?cursor=c2&part=CUSTOM")
	assert.Len(t, next, 1)

	page = parse(t, s.get("/scopes?name=ledger").Body.String())
	assert.Equal(t, "ledger", page.one(t, "input", "name", "part").attrs["value"], "a link to one scope")
	assert.Equal(t, management.ScopeFilter{Name: "ledger"}, f.scopes[1])
}

func TestTypeOfErrorsHadToBeWhole(t *testing.T) {
	f := newFake()
	page := parse(t, newSite(f, "").get("/errors?type_part=invo").Body.String())
	assert.Equal(t, "invo", page.all("input", "name", "type_part")[0].attrs["value"])
	assert.Equal(t, "invo", f.filters[len(f.filters)-1].TypePart)
}
