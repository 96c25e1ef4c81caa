package serve_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/internal/pgtest"
)

// A server could not start behind a pooler in transaction mode: the error named an option of the library that the
// server could not be given.
func TestAServerDidNotStartBehindAPooler(t *testing.T) {
	r := startedWith(t, serve.Config{
		Store: pgtest.PoolerURL(t), Database: pgtest.Schema(t), PollOnly: new(true),
		TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "127.0.0.1:0",
	})
	client := &http.Client{Transport: &http.Transport{}}
	status, body := r.call(client, http.MethodPost, "/v2/queues/hello/jobs", r.token, newJob)
	require.Equal(t, http.StatusCreated, status, body)
	status, body = r.call(client, http.MethodPost, "/v2/leases", r.token, `{"queues":["hello"],"types":["greet"],"wait":"30s"}`)
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"name":"Ann"`)
}
