package dashboard_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/management"
)

// filed is an Inspector that finds jobs by ID.
type filed struct {
	*fake
	refs []management.JobRef
}

func (f filed) FindJobs(_ context.Context, filter management.JobFilter, _ management.PageRequest) (page management.JobPage, err error) {
	for _, ref := range f.refs {
		if slices.Contains(filter.IDs, ref.ID) {
			page.Jobs = append(page.Jobs, management.JobSummary{JobRef: ref})
		}
	}
	return page, nil
}

func TestFindLeadsToTheJobWithTheID(t *testing.T) {
	s := newSite(filed{newFake(), []management.JobRef{
		{Queue: "billing", ID: "one"}, {Queue: "", ID: "a/b ü"}, {Queue: "billing", ID: "both"}, {Queue: "mail", ID: "both"}, {Queue: "mail", ID: ".."},
	}}, "/ops")
	for text, want := range map[string]string{
		"one":        "./queues/billing/jobs/one",
		"\t one\r\n": "./queues/billing/jobs/one",
		"a/b ü":      "./queues/_/jobs/a%2Fb%20%C3%BC",
		"..":         "./queues/mail/jobs/_..",
		"both":       "./jobs?id=both",
		"on":         "./jobs?id_part=on",
		" ":          "./jobs",
		"":           "./jobs",
	} {
		w := s.get("/find?" + url.Values{"id": {text}}.Encode())
		assert.Equal(t, http.StatusSeeOther, w.Code, "%q", text)
		assert.Equal(t, want, w.Header().Get("Location"), "%q", text)
	}
	assert.Equal(t, http.StatusBadRequest, s.get("/find?id=a&id=b").Code)
	assert.Equal(t, http.StatusBadRequest, s.get("/find?name=a").Code)
}

func TestEveryPageHasTheBoxThatFindsAJob(t *testing.T) {
	s := newSite(newFake(), "/ops")
	for _, address := range []string{"/", "/jobs", "/queues/billing/jobs/x", "/queues/billing", "/nothing-of-the-kind?x=1", "/audit"} {
		w := s.get(address)
		if !strings.Contains(w.Header().Get("Content-Type"), "html") {
			continue // no route
		}
		form := parse(t, w.Body.String()).one(t, "form", "role", "search")
		assert.Equal(t, "/find", s.goes(t, http.MethodGet, address, form.attrs["action"]), address)
	}
}
