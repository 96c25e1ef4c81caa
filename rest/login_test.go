package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// serveWithLogin serves a handler below /jobs that requires a login, and returns the URL of
// the server.
func serveWithLogin(t *testing.T, login *rest.Login) string {
	mux := http.NewServeMux()
	mux.Handle("/jobs/login", login)
	mux.Handle("/jobs/", rest.Handler(&tenants{}, rest.Prefix("/jobs"), rest.Authorize(login.Authorize)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// fetched is the status, header and cookies of an answer.
type fetched struct {
	StatusCode int
	Header     http.Header
	cookies    []*http.Cookie
}

// fetch sends a request, and returns the answer and its body.
func fetch(t *testing.T, client *http.Client, method, target string, header ...string) (fetched, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(within(t), method, target, http.NoBody)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return fetched{response.StatusCode, response.Header, response.Cookies()}, string(body)
}

// newBrowser returns a client that keeps cookies.
func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar}
}

func TestTicketSetsACookieThatScriptsAndOtherSitesCannotRead(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := serveWithLogin(t, login)
	browser := newBrowser(t)
	response, _ := fetch(t, browser, http.MethodGet, server+"/jobs/")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)

	once := *browser
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, _ = fetch(t, &once, http.MethodGet, server+"/jobs/login?ticket="+login.Ticket())
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	assert.Equal(t, "./", response.Header.Get("Location"))
	assert.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	assert.Equal(t, "no-referrer", response.Header.Get("Referrer-Policy"))
	require.Len(t, response.cookies, 1)
	cookie := response.cookies[0]
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	assert.Equal(t, "/jobs/", cookie.Path)
	assert.Empty(t, cookie.Domain)

	response, _ = fetch(t, browser, http.MethodGet, server+"/jobs/")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	response, _ = fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/", "Cookie", cookie.Name+"="+cookie.Value)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	response, _ = fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/", "Cookie", cookie.Name+"=wrong")
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

// Browsers send a strict cookie neither with a request that another site has caused, nor after its redirect: a link in
// a chat used up its ticket, and led to a page that said "You are not logged in".
func TestALinkOnAnotherSiteDidNotLogInItsBrowser(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := serveWithLogin(t, login)
	browser := newBrowser(t)
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, page := fetch(t, browser, http.MethodGet, server+"/jobs/login?ticket="+login.Ticket(), "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	assert.Contains(t, page, `<meta http-equiv="refresh" content="0; url=./">`)
	require.Len(t, response.cookies, 1)
	assert.Equal(t, http.SameSiteStrictMode, response.cookies[0].SameSite)
	response, _ = fetch(t, browser, http.MethodGet, server+"/jobs/", "Sec-Fetch-Site", "same-origin")
	assert.Equal(t, http.StatusOK, response.StatusCode)
}

// A ticket remains in the history of a browser, and maybe in a log.
func TestAttackATicketIsUsedAgain(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := serveWithLogin(t, login)
	target := server + "/jobs/login?ticket=" + login.Ticket()
	response, _ := fetch(t, newBrowser(t), http.MethodHead, target)
	assert.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, "a preview of the link must not use up the ticket")
	response, _ = fetch(t, newBrowser(t), http.MethodGet, target)
	assert.Equal(t, http.StatusOK, response.StatusCode, "the redirect leads to the overview")

	thief := newBrowser(t)
	for _, again := range []string{target, server + "/jobs/login", server + "/jobs/login?ticket=", server + "/jobs/login?ticket=" + strings.Repeat("A", 26)} {
		stolen, body := fetch(t, thief, http.MethodGet, again)
		assert.Equal(t, http.StatusUnauthorized, stolen.StatusCode)
		assert.NotContains(t, body, login.Token())
		assert.Empty(t, stolen.cookies)
	}
	response, _ = fetch(t, thief, http.MethodGet, server+"/jobs/v2/queues")
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

func TestAttackALoginOfAnotherProcessIsUsed(t *testing.T) {
	mine, other := rest.NewLogin("/jobs"), rest.NewLogin("/jobs")
	server := serveWithLogin(t, mine)
	for _, header := range []string{"", "Bearer ", "Bearer " + other.Token(), "Basic " + mine.Token(), "Bearer " + mine.Ticket()} {
		response, _ := fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/v2/queues", "Authorization", header)
		assert.Equal(t, http.StatusUnauthorized, response.StatusCode, header)
	}
	response, _ := fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/v2/queues", "Authorization", "Bearer "+mine.Token())
	assert.Equal(t, http.StatusOK, response.StatusCode)
}

// Upper and lower case of the scheme do not matter (RFC 9110).
func TestATokenWasRefusedBecauseOfTheCaseOfItsScheme(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := serveWithLogin(t, login)
	for _, scheme := range []string{"bearer ", "BEARER  "} {
		response, _ := fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/v2/queues", "Authorization", scheme+login.Token())
		assert.Equal(t, http.StatusOK, response.StatusCode, "%q", scheme)
	}
}

// Two such programs on one host must not log each other out: cookies do not distinguish ports.
func TestCookiesOfTwoLoginsHaveDifferentNames(t *testing.T) {
	names := map[string]bool{}
	for range 2 {
		login := rest.NewLogin("/jobs")
		recorder := httptest.NewRecorder()
		login.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs/login?ticket="+login.Ticket(), http.NoBody))
		answer := recorder.Result()
		require.NoError(t, answer.Body.Close())
		names[answer.Cookies()[0].Name] = true
	}
	assert.Len(t, names, 2)
}

// A client that logs in again and again must not fill the memory. The oldest logins are dropped.
func TestAttackLoginsWithoutEndAreBounded(t *testing.T) {
	login := rest.NewLogin("/jobs")
	first := login.Token()
	ticket := login.Ticket()
	for range rest.MaxLogins + 1 {
		login.Token()
		login.Ticket()
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs/login?ticket="+url.QueryEscape(ticket), http.NoBody)
	recorder := httptest.NewRecorder()
	login.ServeHTTP(recorder, request)
	assert.Equal(t, http.StatusUnauthorized, recorder.Code)
	request.Header.Set("Authorization", "Bearer "+first)
	require.Error(t, login.Authorize(request, rest.Access{}))
	request.Header.Set("Authorization", "Bearer "+login.Token())
	require.NoError(t, login.Authorize(request, rest.Access{}))
}

func TestASessionHasTheUserOfItsTicket(t *testing.T) {
	login := rest.NewLogin("/jobs")
	redeem := func(user string) *http.Request {
		t.Helper()
		recorder := httptest.NewRecorder()
		login.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs/login?ticket="+login.TicketFor(user), http.NoBody))
		answer := recorder.Result()
		require.NoError(t, answer.Body.Close())
		require.Len(t, answer.Cookies(), 1)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs/", http.NoBody)
		request.AddCookie(answer.Cookies()[0])
		return request
	}
	ann, nobody := redeem("ann"), redeem("")
	for range rest.MaxLogins + 1 {
		redeem("bob") // only the oldest of his sessions are dropped
	}
	for user, request := range map[string]*http.Request{"ann": ann, "": nobody, "bob": redeem("bob")} {
		found, ok := login.User(request)
		assert.True(t, ok)
		assert.Equal(t, user, found)
		require.NoError(t, login.Authorize(request, rest.Access{}))
	}
	_, ok := login.User(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs/", http.NoBody))
	assert.False(t, ok)
}

func TestLoginOverTLSSetsASecureCookie(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := httptest.NewTLSServer(login)
	defer server.Close()
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, _ := fetch(t, &client, http.MethodGet, fmt.Sprintf("%s/jobs/login?ticket=%s", server.URL, login.Ticket()))
	require.Len(t, response.cookies, 1)
	assert.True(t, response.cookies[0].Secure)
}

// A wrong token was answered with 403 and no challenge, as if a right was missing.
func TestAWrongTokenIsAnsweredAsAMissingRight(t *testing.T) {
	login := rest.NewLogin("/jobs")
	server := serveWithLogin(t, login)
	const bare, refused = `Bearer realm="amboy"`, `Bearer realm="amboy", error="invalid_token", error_description="the token is wrong or has expired"`
	for header, want := range map[string]string{"": bare, "Basic YTpi": bare, "Bearer wrong": refused, "bearer wrong": refused} {
		for _, target := range []string{"/jobs/v2/queues", "/jobs/queues", "/jobs/login"} {
			response, body := fetch(t, http.DefaultClient, http.MethodGet, server+target, "Authorization", header)
			assert.Equal(t, http.StatusUnauthorized, response.StatusCode, "%s %q", target, header)
			assert.Equal(t, want, response.Header.Get("WWW-Authenticate"), "%s %q", target, header)
			assert.NotContains(t, body, "wrong")
		}
	}
	_, body := fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/v2/queues", "Authorization", "Bearer wrong")
	assert.JSONEq(t, `{"type": "urn:amboy:problem:unauthenticated", "title": "Not authenticated", "status": 401, "detail": "the token was refused"}`, body)
	_, body = fetch(t, http.DefaultClient, http.MethodGet, server+"/jobs/v2/queues")
	assert.Contains(t, body, "the request has no token")
}

// A service of the legacy library distinguishes them, too.
func TestAServiceAnswersAWrongTokenAsAMissingRight(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.Authorize(func(*http.Request, rest.Access) error { return fmt.Errorf("%w: secret", rest.ErrUnauthenticated) })}
	})
	status, body := ask(t, s.management, http.MethodGet, "/v1/status/all", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.JSONEq(t, `{"error": "the request has no token"}`, body)
}
