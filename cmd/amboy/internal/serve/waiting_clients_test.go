package serve_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// Of the workers at one address, such as all behind a proxy, 1,000 could wait for jobs. Others were refused with
// status 429.
func TestWorkersBehindAProxyWereRefusedWhileAThousandWaited(t *testing.T) {
	const workers = 1100
	r := startedWith(t, serve.Config{Store: "memory", TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "127.0.0.1:0"})
	const body = `{"queues":["hello"],"types":["greet"],"wait":"10m"}`
	request := fmt.Sprintf("POST /v2/leases HTTP/1.1\r\nHost: amboy\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", r.token, len(body), body)
	waiting := make([]net.Conn, workers)
	for i := range waiting {
		waiting[i] = r.dial(request)
	}
	client := &http.Client{Transport: &http.Transport{}}
	for range waiting {
		status, answer := r.call(client, http.MethodPost, "/v2/queues/hello/jobs", r.token, newJob)
		require.Equal(t, http.StatusCreated, status, answer)
	}
	for _, conn := range waiting {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		if t.Failed() {
			return // with the first of many
		}
	}
}
