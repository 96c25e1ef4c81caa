package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	job.RegisterDefaultJobs()
	goleak.VerifyTestMain(m)
}

// newPath returns the path of a file that does not exist yet.
func newPath(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "jobs.db")
}

// open opens a driver and closes it when the test ends.
func open(tb testing.TB, opts sqlite.Options) *sqlite.Driver {
	tb.Helper()
	d, err := sqlite.Open(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, d.Close(context.Background())) })
	return d
}
