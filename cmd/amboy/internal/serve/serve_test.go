package serve_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/pinlater/wire"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

// running is a server that runs.
type running struct {
	*testing.T
	url, token, link, workq, pinlater string
	// next are the commands that the server suggests.
	next string
	// said receives the lines that the server prints after its start.
	said <-chan string
	stop func()
	// scheme is that of the token; empty for Bearer.
	scheme string
}

// started starts a server with its files in a folder.
func started(t *testing.T, dir string) *running {
	t.Helper()
	return startedWith(t, serve.Config{
		Store: "sqlite:" + filepath.Join(dir, "jobs.db"), TokenFile: filepath.Join(dir, "own", "token"),
		Listen: "127.0.0.1:0", Workq: "127.0.0.1:0", Pinlater: "127.0.0.1:0",
	})
}

func startedWith(t *testing.T, config serve.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, config, in)
		_ = in.Close() // no error to report
	}()
	var text strings.Builder
	lines := bufio.NewScanner(out)
	for !strings.Contains(text.String(), "Ctrl-C") && lines.Scan() {
		text.WriteString(lines.Text() + "\n")
	}
	said := make(chan string, 100)
	go func() {
		defer close(said)
		for lines.Scan() {
			said <- lines.Text()
		}
	}()
	r := &running{T: t, said: said, stop: sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})}
	t.Cleanup(r.stop)
	field := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text.String())
		if found == nil {
			return ""
		}
		return found[1]
	}
	r.url, r.link, r.workq = field(`API +(http\S+)/v2`), field(`Dashboard +(\S+)`), field(`workq +(\S+)`)
	r.pinlater = field(`PinLater +(\S+)`)
	r.next = field(`(?s)In another terminal:\n(.*)\nPress`)
	content, err := os.ReadFile(field(`Token +in (\S+)`))
	require.NoError(t, err, text.String())
	r.token = strings.TrimSpace(string(content))
	return r
}

// call sends a request, and returns the status and the body of the answer.
func (r *running) call(client *http.Client, method, path, token, body string) (int, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", cmp.Or(r.scheme, "Bearer")+" "+token)
	}
	answer, err := client.Do(req)
	require.NoError(r, err)
	content, err := io.ReadAll(answer.Body)
	require.NoError(r, err)
	require.NoError(r, answer.Body.Close())
	client.CloseIdleConnections()
	return answer.StatusCode, string(content)
}

const newJob = `{"type": "greet", "outside": true, "args": {"name": "Ann"}}`

func TestNothingIsGrantedWithoutTheTokenOrTheLink(t *testing.T) {
	r := started(t, t.TempDir())
	client := &http.Client{Transport: &http.Transport{}}
	for _, token := range []string{"", "wrong", r.token + "x", r.token[1:]} {
		for _, path := range []string{"/", "/v2/queues", "/v2/audit", "/queues"} {
			status, _ := r.call(client, http.MethodGet, path, token, "")
			assert.Equal(t, http.StatusUnauthorized, status, "%s with token %q", path, token)
		}
		status, _ := r.call(client, http.MethodPost, "/v2/queues/hello/jobs", token, newJob)
		assert.Equal(t, http.StatusUnauthorized, status)
		status, body := r.call(client, http.MethodPost, "/login/link", token, "")
		assert.Equal(t, http.StatusUnauthorized, status)
		assert.NotContains(t, body, "ticket")
	}
	status, _ := r.call(client, http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)
	r.scheme = "bearer" // upper and lower case do not matter (RFC 9110)
	status, _ = r.call(client, http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)
	for _, path := range []string{"/live", "/ready"} {
		status, _ = r.call(client, http.MethodGet, path, "", "")
		assert.Equal(t, http.StatusOK, status, path)
	}
}

func TestMetricsNeedTheToken(t *testing.T) {
	r := started(t, t.TempDir())
	client := &http.Client{Transport: &http.Transport{}}
	status, body := r.call(client, http.MethodPost, "/v2/queues/hello/jobs", r.token, newJob)
	require.Equal(t, http.StatusCreated, status, body)
	status, _ = r.call(client, http.MethodGet, "/metrics", "", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	status, body = r.call(client, http.MethodGet, "/metrics", r.token, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `amboy_jobs{queue="hello",state="ready"} 1`)
}

// pinlaterClient returns a client of the PinLater port.
func (r *running) pinlaterClient() *wire.PinLaterClient {
	r.Helper()
	config := &thrift.TConfiguration{}
	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketConf(r.pinlater, config), config)
	require.NoError(r, framed.Open())
	r.Cleanup(func() { _ = framed.Close() })
	protocol := thrift.NewTBinaryProtocolConf(framed, config)
	return wire.NewPinLaterClient(thrift.NewTStandardClient(protocol, protocol))
}

func TestPinLaterClientsAreServed(t *testing.T) {
	r := started(t, t.TempDir())
	client := r.pinlaterClient()
	require.NoError(t, client.CreateQueue(t.Context(), wire.NewRequestContext(), "images"))
	job := wire.NewPinLaterJob()
	job.Body = []byte("cat.png")
	_, err := client.EnqueueJobs(t.Context(), wire.NewRequestContext(), &wire.PinLaterEnqueueRequest{QueueName: "images", Jobs: []*wire.PinLaterJob{job}})
	require.NoError(t, err)
	_, body := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodGet, "/v2/queues", r.token, "")
	assert.Contains(t, body, `"images"`)
}

func TestLinkLogsInABrowserOnce(t *testing.T) {
	r := started(t, t.TempDir())
	browse := func(link string) int {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		status, _ := r.call(&http.Client{Transport: &http.Transport{}, Jar: jar}, http.MethodGet, strings.TrimPrefix(link, r.url), "", "")
		return status
	}
	assert.Equal(t, http.StatusOK, browse(r.link))
	assert.Equal(t, http.StatusUnauthorized, browse(r.link))
	_, another := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodPost, "/login/link", r.token, "")
	assert.Equal(t, http.StatusOK, browse(strings.TrimSpace(another)))
}

// A server on all addresses printed a link to http://[::], and answered a client on another machine with such a
// link.
func TestLinksOfAServerOnAllAddressesLedNowhere(t *testing.T) {
	r := startedWith(t, serve.Config{Store: "memory", TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "0.0.0.0:0", Workq: "0.0.0.0:0", WorkqRemote: new(true)})
	assert.Regexp(t, `^http://localhost:\d+$`, r.url)
	assert.True(t, strings.HasPrefix(r.link, r.url+"/login?ticket="), r.link)
	assert.Regexp(t, `^localhost:\d+$`, r.workq)
	r.url = strings.Replace(r.url, "localhost", "127.0.0.1", 1)
	_, another := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodPost, "/login/link", r.token, "")
	assert.True(t, strings.HasPrefix(another, r.url+"/login?ticket="), another)
}

func TestJobsAndTokenSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	r := started(t, dir)
	client := &http.Client{Transport: &http.Transport{}}
	status, body := r.call(client, http.MethodPost, "/v2/queues/hello/jobs", r.token, newJob)
	require.Equal(t, http.StatusCreated, status, body)
	token := r.token
	info, err := os.Stat(filepath.Join(dir, "own", "token"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	r.stop()
	r = started(t, dir)
	assert.Equal(t, token, r.token)
	_, body = r.call(client, http.MethodPost, "/v2/leases", token, `{"queues": ["hello"], "types": ["greet"]}`)
	assert.Contains(t, body, `"name":"Ann"`)
}

func TestStopAnswersWaitingClients(t *testing.T) {
	r := started(t, t.TempDir())
	conn, err := net.Dial("tcp", r.workq) //nolint:noctx // It is local.
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // It was closed by the server.
	_, err = io.WriteString(conn, "run 61a444a0-6128-41c0-8078-cc757d3bd2d8 q 600000 600000 1\r\nx\r\n")
	require.NoError(t, err)
	lease := func(queue string) *http.Request {
		body := `{"queues": ["` + queue + `"], "types": ["workq"], "wait": "10m"}`
		req, reqErr := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v2/leases", strings.NewReader(body))
		require.NoError(t, reqErr)
		req.Header.Set("Authorization", "Bearer "+r.token)
		req.Header.Set("Content-Type", "application/json")
		return req
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	leased, err := client.Do(lease("q")) // the job, which is there once the server has read the command
	require.NoError(t, err)
	require.NoError(t, leased.Body.Close())
	require.Equal(t, http.StatusOK, leased.StatusCode)

	written, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(answered)
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(written) }}
		answer, answerErr := client.Do(lease("empty").WithContext(httptrace.WithClientTrace(t.Context(), trace)))
		if answerErr == nil { // it fails if the server had not read it yet
			assert.NoError(t, answer.Body.Close())
		}
	}()
	<-written
	r.stop()
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "-TIMEOUT\r\n", string(rest))
	<-answered
}

// The printed commands put a job and leased it, and did not say how to end it.
func TestThePrintedCommandsDoNotEndTheJob(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	r := started(t, t.TempDir())
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", r.next).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), `{"acknowledged":[{"done":true}]}`)
	assert.Contains(t, string(out), r.url+"/login?ticket=")
}

// A server whose port was taken left a folder, a token and an empty store behind.
func TestAServerThatCannotListenLeavesFilesBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is local.
	require.NoError(t, err)
	defer taken.Close() //nolint:errcheck // It is closed at the end of the test.
	for name, change := range map[string]func(*serve.Config){
		"--listen":               func(c *serve.Config) { c.Listen = taken.Addr().String() },
		"--workq":                func(c *serve.Config) { c.Workq = taken.Addr().String() },
		"--pinlater":             func(c *serve.Config) { c.Pinlater = "192.0.2.1:1" },
		"must be an address":     func(c *serve.Config) { c.Listen = "localhost" },
		"--workq-remote allows":  func(c *serve.Config) { c.Workq = "0.0.0.0:0" },
		"begins with \"oracle\"": func(c *serve.Config) { c.Store = "oracle:x" },
	} {
		dir := t.TempDir()
		c := serve.Config{Store: "sqlite:" + filepath.Join(dir, "store", "jobs.db"), TokenFile: filepath.Join(dir, "own", "token"), Listen: "127.0.0.1:0"}
		change(&c)
		var out bytes.Buffer
		require.ErrorContains(t, serve.Run(t.Context(), c, &out), name)
		left, errDir := os.ReadDir(dir)
		require.NoError(t, errDir)
		assert.Empty(t, left, name)
		assert.Empty(t, out.String(), name)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	require.NoError(t, os.WriteFile(short, []byte("secret\n"), 0o600))
	good := serve.Config{Store: "memory", TokenFile: filepath.Join(dir, "token"), Listen: "127.0.0.1:0"}
	for want, change := range map[string]func(*serve.Config){
		"--listen must be":                    func(c *serve.Config) { c.Listen = "8080" },
		"--pinlater must be":                  func(c *serve.Config) { c.Pinlater = "x" },
		"--tls-cert and --tls-key must be":    func(c *serve.Config) { c.TLSCert = "cert.pem" },
		"no-such-file":                        func(c *serve.Config) { c.File = "no-such-file" },
		"no-such-cert":                        func(c *serve.Config) { c.TLSCert, c.TLSKey = "no-such-cert", "no-such-key" },
		"--workq-retry-fails needs --workq":   func(c *serve.Config) { c.WorkqRetryFails = new(true) },
		"--pinlater-keep-failed needs --pinl": func(c *serve.Config) { c.PinlaterKeepFailed = 1 },
		"--poll-only needs the --store of a ": func(c *serve.Config) { c.PollOnly = new(true) },
		"--workq must be":                     func(c *serve.Config) { c.Workq = "x" },
		`--store must be memory`:              func(c *serve.Config) { c.Store = "oracle://secret@host" },
		"at least 16 characters":              func(c *serve.Config) { c.TokenFile = short },
		"no login; --workq-remote allows it":  func(c *serve.Config) { c.Workq = "0.0.0.0:0" },
		"choose another address with --workq": func(c *serve.Config) { c.Workq = "192.0.2.1:1" },
	} {
		c := good
		change(&c)
		var out bytes.Buffer
		err := serve.Run(t.Context(), c, &out)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestStoredSchedulesRunAfterARestart(t *testing.T) {
	dir := t.TempDir()
	r := started(t, dir)
	client := &http.Client{Transport: &http.Transport{}}
	status, body := r.call(client, http.MethodPost, "/v2/queues/hello/schedules", r.token, `{"name":"often","every":"1s","type":"greet","outside":true}`)
	require.Equal(t, http.StatusCreated, status, body)
	r.stop()
	r = started(t, dir)
	status, body = r.call(client, http.MethodPost, "/v2/leases", r.token, `{"queues":["hello"],"types":["greet"],"wait":"30s"}`)
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"often@20`)
}
