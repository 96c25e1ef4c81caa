package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/rest"
)

// The error page of a proxy, and the login page that it shows once a session has expired, were
// errors of many lines, or "invalid character '<'".
func TestAnHTMLPageIsAnErrorOfOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		page, want string
	}{
		"error page": {
			http.StatusBadGateway, "<html>\r\n<head><title>502 Bad\n Gateway &amp; more</title></head>\n<body>nginx</body>\n</html>",
			`502 Bad Gateway: the answer is an HTML page, not one of the API: "502 Bad Gateway & more"`,
		},
		"login": {
			http.StatusOK, "<!doctype html>\n<TITLE lang=en>Sign in</TITLE>\n<form>",
			`200 OK: the answer is an HTML page, not one of the API: "Sign in"; if it is a login, the session has expired`,
		},
		"no title": {http.StatusForbidden, "<p>\n<p>", "403 Forbidden: the answer is an HTML page, not one of the API"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.page)
			}))
			defer server.Close()
			client, err := rest.NewClient(server.URL, server.Client())
			require.NoError(t, err)
			_, err = client.Queue(t.Context(), "mail")
			var answer *rest.ResponseError
			require.ErrorAs(t, err, &answer)
			assert.Equal(t, "GET "+server.URL+"/v2/queues/mail: "+c.want, err.Error())
			for _, errWatch := range client.Watch(t.Context(), time.Second) {
				require.ErrorAs(t, errWatch, &answer)
				err = errWatch
			}
			assert.Contains(t, err.Error(), "/v2/events")
			assert.Contains(t, err.Error(), c.want)
		})
	}
}
