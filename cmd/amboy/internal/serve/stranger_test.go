package serve_test

import (
	"bufio"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// Up to 4 MiB of each request were read before its token was checked, so that a client without a
// token could fill the memory.
func TestLargeRequestsWithoutATokenAreRefusedBeforeTheyAreRead(t *testing.T) {
	r := startedWith(t, serve.Config{
		Store: "memory", TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "127.0.0.1:0",
	})
	for name, contentType := range map[string]string{"/v2/leases": "application/json", "/queues/mail/create": "application/x-www-form-urlencoded"} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial("POST " + name + " HTTP/1.1\r\nHost: amboy\r\nContent-Type: " + contentType + "\r\nContent-Length: 1000000\r\n\r\n{")
			require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			assert.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		})
	}
}
