package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// An action on a page of jobs failed as a whole if one of them could not be read, and again at each try, so that it
// never came to the jobs behind it.
func TestAnActionOnADamagedJobStoppedThatOnTheOthers(t *testing.T) {
	d := withDamaged(t, "two", func(d *postgres.Driver) {
		insert(t.Context(), t, d, newRecord("one"), newRecord("two"), newRecord("three"))
		for _, r := range claim(t, d, 3) {
			r.Status.Errors, r.Status.ErrorCount = []string{"failed"}, 1
			end(t.Context(), t, d, r, "")
		}
	})
	for _, dryRun := range []bool{true, false} {
		restart := driver.ActRequest{Action: driver.Action{Kind: driver.Restart}, Limit: 10, DryRun: dryRun}
		acted, err := d.Act(t.Context(), restart)
		require.NoError(t, err)
		assert.Equal(t, driver.Acted{Done: 2, Skipped: 1}, acted)
	}
}

// withDamaged returns a driver with records, the content of one of which can't be decoded.
func withDamaged(t *testing.T, id string, prepare func(*postgres.Driver)) *postgres.Driver {
	t.Helper()
	schema := pgtest.EmptySchema(t)
	d := open(t, postgres.Options{Pool: pgtest.Pool(t), Schema: schema})
	prepare(d)
	execute(t, connect(t, pgtest.URL(t)), "UPDATE "+schema+`.jobs SET extra = '\xff' WHERE job_id = '`+id+"'")
	return d
}

// A job that could not be read could not be canceled, neither alone nor among others, and so it could not be deleted.
func TestADamagedJobCouldNotBeCanceledOrDeleted(t *testing.T) {
	d := withDamaged(t, "bad", func(d *postgres.Driver) {
		bad := newRecord("mail.bad")
		bad.Group = "mail"
		insert(t.Context(), t, d, bad)
	})
	inspector, err := management.NewStoreInspector(d)
	require.NoError(t, err)
	for _, kind := range []management.ActionKind{management.Cancel, management.Delete} {
		_, err = inspector.Job(t.Context(), "mail", "bad")
		require.NoError(t, err)
		var acted management.Acted
		acted, err = inspector.ActOn(t.Context(), "mail", "bad", management.Action{Kind: kind})
		require.NoError(t, err)
		assert.Equal(t, 1, acted.Done)
	}
	_, err = d.Get(t.Context(), "mail", "bad")
	require.True(t, amboy.IsJobNotFoundError(err))
}

// It was handed back, without the request, if it could not be decoded.
func TestADamagedJobRanAgainAfterItsCancelWasRequested(t *testing.T) {
	var lease driver.Lease
	d := withDamaged(t, "bad", func(d *postgres.Driver) {
		insert(t.Context(), t, d, newRecord("bad"))
		lease = driver.LeaseOf(claim(t, d, 1)[0])
		_, err := d.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
		require.NoError(t, err)
	})
	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: lease}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	r, err := d.Get(t.Context(), "", "bad")
	require.NoError(t, err)
	assert.Equal(t, amboy.StateCanceled, driver.StateOf(r, time.Now()))
}
