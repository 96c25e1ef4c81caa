package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// While another process has the right to write, a claim waits only if it would find
// something.
func TestAClaimThatFindsNothingDoesNotWaitForWriters(t *testing.T) {
	at := time.Now().Add(time.Hour).Truncate(0)
	scheduled := func(t *testing.T, d *sqlite.Driver) {
		r := newRecord(t, "later")
		r.TimeInfo.WaitUntil = at
		insert(t, d, r)
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, d *sqlite.Driver)
		limit   int
		waits   bool
		next    time.Time
	}{
		"empty":     {prepare: func(*testing.T, *sqlite.Driver) {}, limit: 1},
		"scheduled": {prepare: scheduled, limit: 1, next: at},
		"no limit": {prepare: func(t *testing.T, d *sqlite.Driver) {
			insert(t, d, newRecord(t, "ready"))
			scheduled(t, d)
		}, next: at},
		"paused": {prepare: func(t *testing.T, d *sqlite.Driver) {
			insert(t, d, newRecord(t, "ready"))
			control(t, d, driver.ControlChange{Paused: new(true)})
		}, limit: 1},
		"as many run as may": {prepare: func(t *testing.T, d *sqlite.Driver) {
			insert(t, d, newRecord(t, "running"), newRecord(t, "ready"))
			claim(t, d, 1)
			control(t, d, driver.ControlChange{MaxRunning: new(1)})
		}, limit: 1},
		"another queue": {prepare: func(t *testing.T, d *sqlite.Driver) {
			r := newRecord(t, "ready")
			r.Group = "another"
			r.Name = driver.RecordName(r.Group, "ready", r.RetryInfo)
			insert(t, d, r)
		}, limit: 1},
		"ready": {prepare: func(t *testing.T, d *sqlite.Driver) { insert(t, d, newRecord(t, "ready")) }, limit: 1, waits: true},
		"due": {prepare: func(t *testing.T, d *sqlite.Driver) {
			r := newRecord(t, "due")
			r.TimeInfo.WaitUntil = time.Now().Add(time.Nanosecond)
			insert(t, d, r)
		}, limit: 1, waits: true},
		"expired": {prepare: func(t *testing.T, d *sqlite.Driver) {
			r := newRecord(t, "expired")
			r.TimeInfo.DispatchBy = time.Now().Add(-time.Hour)
			insert(t, d, r)
		}, waits: true},
		"expired when another queue was asked": {prepare: func(t *testing.T, d *sqlite.Driver) {
			r := newRecord(t, "expired")
			r.TimeInfo.DispatchBy = time.Now().Add(-time.Hour)
			insert(t, d, r)
			req := request(1)
			req.Queues[0].Queue = "another"
			claimed, err := d.Claim(t.Context(), req)
			require.NoError(t, err)
			require.Empty(t, claimed.Records)
		}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			test.prepare(t, open(t, sqlite.Options{Path: path}))
			d := open(t, sqlite.Options{Path: path})
			defer lock(t, path)()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if test.waits {
				ctx = later(t)
			}
			claimed, err := d.Claim(ctx, request(test.limit))
			if test.waits {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return
			}
			require.NoError(t, err)
			assert.Empty(t, claimed.Records)
			assert.True(t, test.next.Equal(claimed.Next), "next is %v, and should be %v", claimed.Next, test.next)
		})
	}
}

func control(t *testing.T, d *sqlite.Driver, change driver.ControlChange) {
	t.Helper()
	_, err := d.Control(t.Context(), queueName, change)
	require.NoError(t, err)
}
