//go:build unix

package serve_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// If the settings of a queue can't be changed, those of the queues after it were not changed either, and those
// before it were changed again every ten seconds, whatever an operator had changed since.
func TestAQueueThatFailsKeptTheSettingsOfOthersFromBeingReloaded(t *testing.T) {
	dir := t.TempDir()
	file, token := filepath.Join(dir, "amboy.json"), filepath.Join(dir, "token")
	settings := `"store": "memory", "token_file": "` + token + `", "listen": "127.0.0.1:0", "pinlater": "127.0.0.1:0"`
	write(t, file, `{`+settings+`}`)
	r := startedWith(t, serve.Config{File: file})
	var limits []string
	for i := range amboy.MaxTypeLimits + 1 {
		limits = append(limits, fmt.Sprintf(`"type-%d": {"max_running": 1}`, i))
	}
	tooMany := `{"max_running": 1, "types": {` + strings.Join(limits, ",") + `}}`
	write(t, file, `{`+settings+`, "pinlater_dequeue_only": true, "queues": {"a": `+tooMany+`, "mail": {"max_running": 5}, "z": `+tooMany+`}}`)
	said := r.hangUp()
	assert.Contains(t, said, `queue "a"`)
	assert.Contains(t, r.mail(), `"max_running":5`)
	require.Error(t, r.enqueue())
	assert.Contains(t, <-r.said, `queue "z"`)

	status, body := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodPatch, "/v2/queues/mail", r.token, `{"max_running":7}`)
	require.Equal(t, http.StatusOK, status, body)
	for i := range 2 { // the token is read first, so the second time the file has been read again
		write(t, token, fmt.Sprintf("another-token-of-the-server-%d\n", i))
		require.Equal(t, "Reloaded "+token, r.hangUp())
		r.token = fmt.Sprintf("another-token-of-the-server-%d", i)
	}
	assert.Contains(t, r.mail(), `"max_running":7`)

	write(t, file, `{`+settings+`, "queues": {"mail": {"max_running": 3}}}`)
	require.Equal(t, "Reloaded "+file, r.hangUp())
	assert.Contains(t, r.mail(), `"max_running":3`)
	require.NoError(t, r.enqueue())
}
