package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

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

// A server whose database can't be reached printed nothing until it gave up.
func TestAServerPrintedNothingWhileItConnected(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // which accepts no connection
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	for _, store := range []string{"mongodb://user:secret@", "postgres://user:secret@"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		out, in := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- serve.Run(ctx, serve.Config{
				Store: store + silent.Addr().String(), Database: "shop", TokenFile: filepath.Join(t.TempDir(), "token"), Listen: "127.0.0.1:0",
			}, in)
			_ = in.Close() // no error to report
		}()
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		assert.Regexp(t, "^Connecting to (MongoDB database|PostgreSQL schema) shop\n$", line)
		cancel()
		require.Error(t, <-ended)
	}
}
