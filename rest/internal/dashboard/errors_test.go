package dashboard_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each group leads to its jobs, and to a preview of a retry of exactly these.
func TestGroupsOfErrorsLeadToTheirJobs(t *testing.T) {
	s := newSite(newFake(), "")
	w := s.get("/errors")
	require.Equal(t, http.StatusOK, w.Code)
	page := parse(t, w.Body.String())
	groups := page.all("input", "name", "error_group")
	require.NotEmpty(t, groups)
	message := groups[0].attrs["value"]
	assert.NotRegexp(t, "[0-9]", message)
	query := url.Values{"state": {"failed"}, "error_group": {message}}
	assert.NotEmpty(t, page.all("a", "href", "./jobs?"+query.Encode()), "%s", query.Encode())
	list := s.get("/jobs?" + query.Encode())
	require.Equal(t, http.StatusOK, list.Code)
	assert.Contains(t, list.Body.String(), `name="error_group"`)
}
