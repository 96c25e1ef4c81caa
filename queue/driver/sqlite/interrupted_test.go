package sqlite_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A read that its context ended failed with SQLite's "interrupted", not with the error of the context, if the
// end came at the wrong moment.
func TestAReadThatWasCanceledDidNotSaySo(t *testing.T) {
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close(context.Background())) }()
	for i := range 100 { // a read has many rows
		_, err = d.Insert(t.Context(), []*driver.Record{newRecord(t, strconv.Itoa(i))})
		require.NoError(t, err)
	}
	for range 4_000 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(300*time.Microsecond))), cancel)
		_, err := d.Find(ctx, driver.Query{}, driver.PageRequest{Limit: 100})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		timer.Stop()
		cancel()
	}
}
