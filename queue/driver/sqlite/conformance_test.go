package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return open(t, sqlite.Options{Path: newPath(t)})
	})
}

// newPath is the path of a file that is not there yet.
func newPath(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "jobs.db")
}

// open opens a driver that is closed when the test ends.
func open(tb testing.TB, opts sqlite.Options) *sqlite.Driver {
	tb.Helper()
	d, err := sqlite.Open(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, d.Close(context.Background())) })
	return d
}
