//go:build unix

package serve_test

import (
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

const (
	workerToken  = "token-of-the-workers"
	readerToken  = "token-of-the-readers"
	tenantsToken = "token-of-the-tenants"
)

// startedWithTokens starts a server with a file of tokens, which replace replaces.
func startedWithTokens(t *testing.T) (r *running, replace func(content string)) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.json")
	write(t, file, tokens)
	r = startedWith(t, serve.Config{Store: "memory", TokenFile: filepath.Join(dir, "token"), Tokens: file, Listen: "127.0.0.1:0"})
	return r, func(content string) { write(t, file, content) }
}

const tokens = `{
	"workers": {"token": "` + workerToken + `", "may": ["work"], "queues": ["images"]},
	"readers": {"token": "` + readerToken + `", "may": ["read"]},
	"tenants": {"token": "` + tenantsToken + `", "may": ["all"], "queues": ["tenant-*"]}
}`

func TestATokenGrantsWhatItsFileSays(t *testing.T) {
	r, _ := startedWithTokens(t)
	client := &http.Client{Transport: &http.Transport{}}
	for _, queue := range []string{"images", "mail", "tenant-a"} {
		status, body := r.call(client, http.MethodPost, "/v2/queues/"+queue+"/jobs", r.token, newJob)
		require.Equal(t, http.StatusCreated, status, body)
	}
	lease := func(queue string) string { return `{"types": ["greet"], "queues": ["` + queue + `"]}` }
	for _, c := range []struct {
		token, method, path, body string
		status                    int
	}{
		{workerToken, http.MethodPost, "/v2/leases", lease("images"), http.StatusOK},
		{workerToken, http.MethodPost, "/v2/leases", lease("mail"), http.StatusForbidden},
		{workerToken, http.MethodGet, "/v2/queues/images", "", http.StatusForbidden},
		{workerToken, http.MethodPost, "/v2/queues/images/jobs", newJob, http.StatusForbidden},
		{workerToken, http.MethodGet, "/metrics", "", http.StatusForbidden},
		{readerToken, http.MethodGet, "/v2/queues/images", "", http.StatusOK},
		{readerToken, http.MethodGet, "/metrics", "", http.StatusOK},
		{readerToken, http.MethodPost, "/v2/leases", lease("mail"), http.StatusForbidden},
		{readerToken, http.MethodPost, "/v2/queues/images/jobs", newJob, http.StatusForbidden},
		{tenantsToken, http.MethodPost, "/v2/queues/tenant-b/jobs", newJob, http.StatusCreated},
		{tenantsToken, http.MethodPost, "/v2/leases", lease("tenant-a"), http.StatusOK},
		{tenantsToken, http.MethodPost, "/v2/leases", lease("mail"), http.StatusForbidden},
		{tenantsToken, http.MethodGet, "/v2/queues/tenant-a", "", http.StatusOK},
		{tenantsToken, http.MethodGet, "/v2/queues", "", http.StatusForbidden},
		{tenantsToken, http.MethodGet, "/metrics", "", http.StatusForbidden},
		{tenantsToken + "x", http.MethodGet, "/v2/queues/tenant-a", "", http.StatusUnauthorized},
	} {
		status, body := r.call(client, c.method, c.path, c.token, c.body)
		assert.Equal(t, c.status, status, "%s %s %s with %s: %s", c.method, c.path, c.body, c.token, body)
	}
	_, body := r.call(client, http.MethodGet, "/v2/audit?actors=tenants", r.token, "")
	assert.Contains(t, body, `"tenant-b"`)
}

// The refusal named the type of the jobs of the schedule.
func TestATokenOfSomeQueuesLearnedWhichSchedulesOthersHave(t *testing.T) {
	r, _ := startedWithTokens(t)
	client := &http.Client{Transport: &http.Transport{}}
	status, body := r.call(client, http.MethodPost, "/v2/queues/mail/schedules", r.token, `{"name": "daily", "type": "greet", "outside": true, "every": "24h"}`)
	require.Equal(t, http.StatusCreated, status, body)
	for method, path := range map[string]string{http.MethodDelete: "", http.MethodPost: "/trigger"} {
		status, known := r.call(client, method, "/v2/queues/mail/schedules/daily"+path, tenantsToken, "")
		assert.Equal(t, http.StatusForbidden, status)
		_, unknown := r.call(client, method, "/v2/queues/mail/schedules/other"+path, tenantsToken, "")
		assert.Equal(t, unknown, known)
	}
}

// The timeline of a job had the number of jobs of all queues that an operator had acted on.
func TestATokenOfSomeQueuesSawAnActionOnOthers(t *testing.T) {
	r, _ := startedWithTokens(t)
	client := &http.Client{Transport: &http.Transport{}}
	for _, path := range []string{"/v2/queues/mail/jobs", "/v2/queues/tenant-a/jobs"} {
		status, body := r.call(client, http.MethodPost, path, r.token, strings.Replace(newJob, "{", `{"id": "a", `, 1))
		require.Equal(t, http.StatusCreated, status, body)
	}
	status, body := r.call(client, http.MethodPost, "/v2/jobs/actions", r.token, `{"action": "prioritize", "priority": 3, "limit": 10, "filter": {"types": ["greet"]}}`)
	require.Equal(t, http.StatusOK, status, body)
	for token, sees := range map[string]bool{r.token: true, readerToken: true, tenantsToken: false} {
		status, body = r.call(client, http.MethodGet, "/v2/queues/tenant-a/jobs/a", token, "")
		require.Equal(t, http.StatusOK, status, body)
		assert.Equal(t, sees, strings.Contains(body, "with 2 jobs"), "%s: %s", token, body)
	}
}

func TestALinkGrantsWhatTheTokenDoesThatMadeIt(t *testing.T) {
	r, replace := startedWithTokens(t)
	client := &http.Client{Transport: &http.Transport{}}
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Transport: &http.Transport{}, Jar: jar}
	status, link := r.call(client, http.MethodPost, "/login/link", readerToken, "")
	require.Equal(t, http.StatusOK, status)
	status, _ = r.call(browser, http.MethodGet, strings.TrimPrefix(strings.TrimSpace(link), r.url), "", "")
	require.Equal(t, http.StatusOK, status)
	read := func() int {
		answer, _ := r.call(browser, http.MethodGet, "/v2/queues", "", "")
		return answer
	}
	assert.Equal(t, http.StatusOK, read())
	status, _ = r.call(browser, http.MethodPost, "/v2/queues/images/jobs", "", newJob)
	assert.Equal(t, http.StatusForbidden, status)

	replace(strings.ReplaceAll(tokens, workerToken, "another-token-of-the-workers"))
	assert.Contains(t, r.hangUp(), "Reloaded")
	assert.Equal(t, http.StatusOK, read())
	status, _ = r.call(client, http.MethodPost, "/login/link", workerToken, "")
	assert.Equal(t, http.StatusUnauthorized, status)
	replace(strings.ReplaceAll(tokens, readerToken, "another-token-of-the-readers"))
	assert.Contains(t, r.hangUp(), "Reloaded")
	assert.Equal(t, http.StatusUnauthorized, read())
	status, _ = r.call(browser, http.MethodGet, "/login?ticket=x", "", "")
	assert.Equal(t, http.StatusUnauthorized, status)
}

// It had a session of each link, and acted with the one whose token came first.
func TestABrowserDidNotHaveTheRightsOfItsLastLink(t *testing.T) {
	r, _ := startedWithTokens(t)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Transport: &http.Transport{}, Jar: jar}
	for _, c := range []struct {
		token  string
		create int
	}{{r.token, http.StatusCreated}, {readerToken, http.StatusForbidden}, {tenantsToken, http.StatusCreated}, {readerToken, http.StatusForbidden}, {r.token, http.StatusCreated}} {
		status, link := r.call(browser, http.MethodPost, "/login/link", c.token, "")
		require.Equal(t, http.StatusOK, status)
		_, _ = r.call(browser, http.MethodGet, strings.TrimPrefix(strings.TrimSpace(link), r.url), "", "")
		status, body := r.call(browser, http.MethodPost, "/v2/queues/tenant-a/jobs", "", newJob)
		assert.Equal(t, c.create, status, "%s: %s", c.token, body)
	}
}

func TestAFileOfTokensThatIsNotValidChangesNothing(t *testing.T) {
	r, replace := startedWithTokens(t)
	client := &http.Client{Transport: &http.Transport{}}
	for content, why := range map[string]string{
		`[]`:           "cannot unmarshal array",
		`null`:         "an object, and not null",
		`{"a": null}`:  `token "a": it must be an object`,
		`{"a": {}} {}`: "single JSON object",
		`{"": {"token": "0123456789abcdef", "may": ["all"]}}`:                                                        "its name must have from 1 to 100 bytes",
		`{"a": {"token": "short", "may": ["all"]}}`:                                                                  "one word of at least 16 characters",
		`{"a": {"token": "0123456789abcdef"}}`:                                                                       "may must list what it allows",
		`{"a": {"token": "0123456789abcdef", "may": ["write"]}}`:                                                     `(has "write")`,
		`{"a": {"token": "0123456789abcdef", "may": ["all"], "queues": []}}`:                                         "or be absent for all",
		`{"a": {"token": "0123456789abcdef", "may": ["all"], "queues": ["*-a"]}}`:                                    `(has "*-a")`,
		`{"b": {"token": "0123456789abcdef", "may": ["all"], "queues": null}}`:                                       "or be absent for all",
		`{"a": {"token": "0123456789abcdef", "may": ["all"]}, "a": {"token": "0123456789abcdefg", "may": ["read"]}}`: `the key "a" must not occur twice`,
		`{"a": {"token": "0123456789abcdef", "can": ["all"]}}`:                                                       `unknown field "can"`,
		`{"a": {"token": "` + r.token + `", "may": ["read"]}}`:                                                       `the token of the token file and token "a" must not be equal`,
		`{"a": {"token": "0123456789abcdef", "may": ["all"]}, "b": {"token": "0123456789abcdef", "may": ["read"]}}`:  `token "a" and token "b" must not be equal`,
	} {
		replace(content)
		said := r.hangUp()
		assert.Contains(t, said, "Could not reload")
		assert.Contains(t, said, why)
		assert.NotContains(t, said, "0123456789abcdef")
		status, _ := r.call(client, http.MethodGet, "/v2/queues", readerToken, "")
		assert.Equal(t, http.StatusOK, status, content)
	}
}
