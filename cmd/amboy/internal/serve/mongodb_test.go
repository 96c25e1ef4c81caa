package serve_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/internal/mongotest"
)

// More than half of the index keys that a job changed were those of indexes which only the legacy library
// reads.
func TestAServerBuiltIndexesOfTheLegacyLibrary(t *testing.T) {
	deployment := mongotest.Open(t)
	r := startedWith(t, serve.Config{
		Store: deployment.URI(), Database: deployment.Database(), TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "127.0.0.1:0",
	})
	defer r.stop()
	cursor, err := deployment.Collection("jobs.group").Indexes().List(t.Context())
	require.NoError(t, err)
	var indexes []map[string]any
	require.NoError(t, cursor.All(t.Context(), &indexes))
	text := fmt.Sprint(indexes)
	assert.Contains(t, text, "next_job")
	assert.NotContains(t, text, "time_info.wait_until")
	assert.NotContains(t, text, "time_info.dispatch_by")
}
