package dashboard_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLiveSendsAnEventAfterEachChange(t *testing.T) {
	f := newFake()
	server := httptest.NewServer(newSite(f, "/ops").handler)
	defer server.Close()
	read := func() (*bufio.Scanner, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/ops/live", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r) //nolint:bodyclose // The returned function closes it.
		require.NoError(t, err)
		assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
		return bufio.NewScanner(response.Body), func() {
			cancel()
			assert.NoError(t, response.Body.Close())
		}
	}
	expect := func(lines *bufio.Scanner, want ...string) {
		t.Helper()
		for _, line := range want {
			require.True(t, lines.Scan())
			assert.Equal(t, line, lines.Text())
		}
	}
	event := []string{"event: changed", "data: {}", ""}
	lines, stop := read()
	expect(lines, "retry: 3000", "")
	expect(lines, event...) // something may have changed since the page was rendered
	f.changes <- struct{}{}
	expect(lines, event...)
	f.changes <- struct{}{}
	expect(lines, event...)
	stop()
	http.DefaultClient.CloseIdleConnections()
}
