package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestConformance(t *testing.T) {
	s := newStores(t)
	drivertest.Run(t, drivertest.Harness{
		Open:       func(t *testing.T) driver.Driver { return s.open(t, s.newPath(t)) },
		Elapse:     s.elapse,
		StepClock:  s.stepClock,
		Reopen:     s.reopen,
		ReadLittle: func(d driver.Driver, n int) { sqlite.WorkAtOnce(d.(*sqlite.Driver), n) },
		Share:      func(t *testing.T, d driver.Driver) driver.Driver { return s.open(t, s.paths[d]) },
		Break:      func(t *testing.T, d driver.Driver) (repair func()) { return lock(t, s.paths[d]) },
		IsUnknown:  func(err error) bool { return errors.Is(err, driver.ErrOutcomeUnknown) },
		Begin: func(ctx context.Context, t *testing.T, d driver.Driver) drivertest.Transaction {
			db, err := sql.Open("sqlite", s.paths[d]+"?_txlock=immediate&_pragma=busy_timeout(5000)")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			return drivertest.Transaction{Context: sqlite.WithTx(ctx, tx), Commit: tx.Commit, Rollback: tx.Rollback}
		},
	})
}

// stores are the files of the suite. There are hundreds, so each is a copy of an empty
// file, in memory if the system supports it.
type stores struct {
	empty []byte
	paths map[driver.Driver]string
}

func newStores(t *testing.T) *stores {
	t.Helper()
	s := &stores{paths: map[driver.Driver]string{}}
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	s.empty, err = os.ReadFile(path)
	require.NoError(t, err)
	return s
}

func (s *stores) newPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "amboy-sqlite-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "jobs.db")
	require.NoError(t, os.WriteFile(path, s.empty, 0o600))
	return path
}

func (s *stores) open(t *testing.T, path string) driver.Driver {
	t.Helper()
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	s.paths[d] = path
	return d
}

// elapse advances the clocks of all drivers that share the file of d.
func (s *stores) elapse(_ *testing.T, d driver.Driver, by time.Duration) {
	s.eachBeside(d, func(other *sqlite.Driver) { sqlite.Elapse(other, by) })
}

// stepClock sets the clock of rates of all drivers that share the file of d.
func (s *stores) stepClock(_ *testing.T, d driver.Driver, by time.Duration) {
	s.eachBeside(d, func(other *sqlite.Driver) { sqlite.StepClock(other, by) })
}

func (s *stores) eachBeside(d driver.Driver, do func(*sqlite.Driver)) {
	for other, path := range s.paths {
		if path == s.paths[d] {
			do(other.(*sqlite.Driver))
		}
	}
}

// reopen waits until all calls of the old driver are done, as they are when a process was
// killed.
func (s *stores) reopen(t *testing.T, d driver.Driver) driver.Driver {
	t.Helper()
	if _, err := d.Extend(t.Context(), nil, time.Minute); err != nil {
		require.ErrorIs(t, err, driver.ErrClosed)
	}
	return s.open(t, s.paths[d])
}
