package rest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/rest"
)

// An operator with rights on one queue got an error on each entry of the menu.
func TestAnOperatorOfSomeQueuesGetsAMenuThatWorks(t *testing.T) {
	readers := func(queues ...string) http.Handler {
		return rest.Handler(&tenants{}, rest.Authorize(func(_ *http.Request, access rest.Access) error {
			for _, queue := range queues {
				if access.Queue == queue && !access.AllQueues && access.Action == rest.ActionRead {
					return nil
				}
			}
			return errors.New("not yours")
		}))
	}
	get := func(handler http.Handler, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		return w
	}
	to := func(w *httptest.ResponseRecorder) string {
		return "/" + strings.TrimPrefix(w.Header().Get("Location"), "./")
	}
	one := readers(mine)
	home := get(one, "/")
	require.Equal(t, http.StatusSeeOther, home.Code)
	page := get(one, to(home))
	require.Equal(t, http.StatusOK, page.Code)
	entries := regexp.MustCompile(`<li><a href="(?:\.\./)*([^"]*)"[^>]*>(Jobs|Errors|Queues|Schedules|Scopes|Audit)</a>`).FindAllStringSubmatch(page.Body.String(), -1)
	require.Len(t, entries, 6)
	for _, entry := range entries {
		w := get(one, "/"+entry[1])
		if w.Code == http.StatusSeeOther {
			w = get(one, to(w))
		}
		assert.Equal(t, http.StatusOK, w.Code, entry[1])
	}
	assert.NotContains(t, page.Body.String(), ">Workers</a>")
	for _, target := range []string{"/jobs", "/errors?error=x", "/schedules", "/scopes", "/audit"} {
		w := get(one, target)
		require.Equal(t, http.StatusSeeOther, w.Code, target)
		assert.Equal(t, http.StatusOK, get(one, to(w)).Code, target)
	}
	assert.Equal(t, http.StatusForbidden, get(one, "/workers").Code)
	assert.Equal(t, http.StatusForbidden, get(one, "/jobs?queue="+theirs).Code)
	assert.Equal(t, http.StatusForbidden, get(one, "/v2/jobs").Code, "programs name their queues")

	several := get(readers(mine, theirs), "/")
	require.Equal(t, http.StatusOK, several.Code)
	assert.Contains(t, several.Body.String(), "Your queues")
	assert.Equal(t, http.StatusForbidden, get(readers(), "/").Code)
}

// An operator with rights on one queue who emptied the field for it was denied the list of jobs.
func TestAnEmptyQueueInTheFilterOfAnOperatorOfOneQueueMeansThatQueue(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.Authorize(func(_ *http.Request, access rest.Access) error {
		if access.Queue == mine && access.Action == rest.ActionRead {
			return nil
		}
		return errors.New("not yours")
	}))
	get := func(target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		return w
	}
	for _, list := range []string{"/jobs?queue=&state=failed", "/errors?queue=&error=x", "/schedules?queue=&name=x", "/scopes?queue=&part=x", "/audit?queue=&job=x"} {
		redirected := get(list)
		require.Equal(t, http.StatusSeeOther, redirected.Code, list)
		target := "/" + strings.TrimPrefix(redirected.Header().Get("Location"), "./")
		assert.Equal(t, list+"&queue="+mine, target)
		assert.Equal(t, http.StatusOK, get(target).Code, target)
	}
}

// The button was only for those who may store schedules in all queues.
func TestAnOperatorOfOneQueueHadNoWayToANewSchedule(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.Authorize(func(_ *http.Request, access rest.Access) error {
		if access.Queue == mine && (access.Action == rest.ActionRead || access.Action == rest.ActionSchedule) {
			return nil
		}
		return errors.New("not yours")
	}))
	get := func(target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		return w
	}
	const form = "schedules/new?queue=" + mine
	assert.Contains(t, get("/schedules?queue="+mine).Body.String(), `href="./`+form+`"`)
	assert.Equal(t, http.StatusOK, get("/"+form).Code)
}
