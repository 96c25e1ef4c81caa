package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served starts the service, and returns the address of its dashboard and the printed login
// URL.
func served(t *testing.T, args ...string) (dashboard, login string) {
	t.Helper()
	dir := t.TempDir()
	write(t, "one\n", dir, "a", "file")
	ctx, stop := context.WithCancel(context.Background())
	printed, idle, ended := make(chan string, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- run(ctx, append(append([]string{"-store", "memory"}, args...), dir), writerFunc(func(p []byte) (int, error) {
			switch text := string(p); {
			case strings.HasPrefix(text, "Dashboard: "):
				printed <- text
			case strings.Contains(text, "queues stay up"):
				close(idle)
			}
			return len(p), nil
		}))
	}()
	t.Cleanup(func() {
		select {
		case <-idle: // all jobs have ended
		case err := <-ended:
			ended <- err
		}
		stop()
		require.NoError(t, <-ended)
	})
	var text string
	select {
	case text = <-printed:
	case err := <-ended:
		ended <- nil
		require.Fail(t, "the service ended", "%v", err)
	}
	login = regexp.MustCompile(`http://\S+`).FindString(text)
	dashboard, _, found := strings.Cut(login, "login?ticket=")
	require.True(t, found, text)
	return dashboard, login
}

// status sends a request, and returns the status of the answer.
func status(t *testing.T, client *http.Client, method, target, body string, header ...string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func newClient(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// The first command of the README must not let another user of the machine read files, or
// run commands.
func TestAttackAnotherUserOfTheMachineUsesTheDashboard(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	dashboard, login := served(t, "-token-file", token)
	attacker, operator := newClient(t), newClient(t)
	create := `{"type":"shell","args":{"command":"id"}}`
	for _, target := range []string{"", "jobs", "queues", "v2/queues", "v2/jobs", "v2/events", "live", "metrics"} {
		assert.Equal(t, http.StatusUnauthorized, status(t, attacker, http.MethodGet, dashboard+target, ""), target)
	}
	assert.Equal(t, http.StatusUnauthorized, status(t, attacker, http.MethodPost, dashboard+"v2/queues/_/jobs", create))

	assert.Equal(t, http.StatusOK, status(t, operator, http.MethodGet, login, ""))
	assert.Equal(t, http.StatusOK, status(t, operator, http.MethodGet, dashboard+"v2/queues", ""))
	assert.Equal(t, http.StatusUnauthorized, status(t, attacker, http.MethodGet, login, ""), "a ticket must work only once")
	assert.Equal(t, http.StatusForbidden, status(t, operator, http.MethodPost, dashboard+"v2/queues/_/jobs", create), "no type may be created")

	info, err := os.Stat(token)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(token)
	require.NoError(t, err)
	bearer := "Bearer " + strings.TrimSpace(string(content))
	for _, target := range []string{"v2/queues", "metrics"} {
		assert.Equal(t, http.StatusOK, status(t, attacker, http.MethodGet, dashboard+target, "", "Authorization", bearer), target)
	}
}

// A browser sends the cookie to all ports of a host, but not for other paths.
func TestAttackAnotherPortAsksForTheCookie(t *testing.T) {
	dashboard, login := served(t)
	operator := newClient(t)
	require.Equal(t, http.StatusOK, status(t, operator, http.MethodGet, login, ""))
	at, err := url.Parse(dashboard)
	require.NoError(t, err)
	require.Len(t, operator.Jar.Cookies(at), 1)
	at.Host, at.Path = at.Hostname()+":9999", "/"
	assert.Empty(t, operator.Jar.Cookies(at))
}

func TestTokenFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	err := run(t.Context(), []string{"-store", "memory", "-once", "-token-file", dir, t.TempDir()}, io.Discard)
	require.ErrorContains(t, err, dir)
}
