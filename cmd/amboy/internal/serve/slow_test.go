package serve_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// dial opens a connection to the HTTP server, and sends a text.
func (r *running) dial(text string) net.Conn {
	r.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://")) //nolint:noctx // It is local.
	require.NoError(r, err)
	r.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(r, err)
	return conn
}

// A client that sent the body of a request slowly, or none of it, kept its connection for ever.
func TestClientsThatDoNotSendTheirRequestsAreDropped(t *testing.T) {
	const clientTime = 5 * time.Second // also a busy machine reads a request in that time
	dir := t.TempDir()
	r := startedWith(t, serve.Config{
		Store: "memory", TokenFile: filepath.Join(dir, "token"), Listen: "127.0.0.1:0", ClientTime: clientTime,
	})
	head := "POST /v2/leases HTTP/1.1\r\nHost: amboy\r\nAuthorization: Bearer " + r.token + "\r\n"
	for name, sent := range map[string]string{
		"nothing": "", "a part of the header": head, "a part of the body": head + "Content-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(sent)
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err := io.ReadAll(conn) // until the server closes it
			require.NoError(t, err)
		})
	}
	t.Run("a wait is not cut short", func(t *testing.T) {
		t.Parallel()
		body := `{"queues":["hello"],"types":["greet"],"wait":"1m"}`
		conn := r.dial(fmt.Sprintf("%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body))
		timer := time.NewTimer(clientTime + clientTime/2) // the time of a client passes
		<-timer.C
		status, _ := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodPost, "/v2/queues/hello/jobs", r.token, newJob)
		assert.Equal(t, http.StatusCreated, status)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Contains(t, string(answer), `"type":"greet"`)
	})
}

// A server with a port for PinLater that had cut off a slow client of the HTTP server said that it had
// not stopped in time, and ended with an error.
func TestAStopThatCutOffASlowClientFailed(t *testing.T) {
	r := started(t, t.TempDir())
	conn := r.dial("POST /v2/leases HTTP/1.1\r\nHost: amboy\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n" +
		"Authorization: Bearer " + r.token + "\r\nContent-Length: 100\r\n\r\n")
	const reads = "HTTP/1.1 100 Continue\r\n\r\n"
	_, err := io.ReadFull(conn, make([]byte, len(reads)))
	require.NoError(t, err) // the server reads the body
	r.stop()
}
