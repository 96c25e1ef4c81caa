package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// A client reaches all jobs by following the Link headers, below a prefix and whatever else is in
// the query.
func TestLinkLeadsToTheNextPage(t *testing.T) {
	handler := rest.Handler(inspectortest.NewWorld(t), everybody(), rest.Prefix("/some/where"))
	at, err := url.Parse("/some/where/v2/jobs?limit=3&queues=orders&created[from]=2000-01-01T00:00:00Z")
	require.NoError(t, err)
	var ids []string
	pages := 0
	for at != nil {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), http.NoBody))
		require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
		var page management.JobPage
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &page))
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		pages++
		link := recorder.Header().Get("Link")
		assert.Equal(t, page.Next != "", link != "")
		if link == "" {
			break
		}
		target, parameters, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		assert.Equal(t, `; rel="next"`, parameters)
		at, err = at.Parse(target)
		require.NoError(t, err)
	}
	assert.Greater(t, pages, 2)
	assert.Contains(t, ids, "failed")
	assert.Contains(t, ids, "scheduled")
}

// A tenant sees only the types that it may put, and others whether they may be put.
func TestTypesSayWhetherTheyMayBePut(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	list := func(options ...rest.Option) map[string]bool {
		recorder := httptest.NewRecorder()
		handler := rest.Handler(inspector, append(options, everybody(), rest.CreateTypes("resize"))...)
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/types", http.NoBody))
		require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
		var got struct{ Types []management.JobType }
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &got))
		create := map[string]bool{}
		for _, j := range got.Types {
			create[j.Type] = j.Create
		}
		return create
	}
	all := list()
	assert.Greater(t, len(all), 1)
	assert.True(t, all["resize"])
	assert.Equal(t, map[string]bool{"resize": true}, list(rest.Tenant("orders")))
	server := httptest.NewServer(rest.Handler(inspector, everybody()))
	defer server.Close()
	client, err := rest.NewClient(server.URL, server.Client())
	require.NoError(t, err)
	types, err := client.JobTypes(t.Context())
	require.NoError(t, err)
	for _, j := range types {
		assert.False(t, j.Create, "without CreateTypes: %s", j.Type)
	}
}
