package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestMain(m *testing.M) {
	quiet := send.LevelInfo{Default: level.Info, Threshold: level.Emergency}
	if err := grip.GetSender().SetLevel(quiet); err != nil {
		panic(err)
	}
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
