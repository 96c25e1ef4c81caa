package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func recoverStale(t *testing.T, d *sqlite.Driver) int {
	t.Helper()
	n, err := d.RecoverStale(t.Context())
	require.NoError(t, err)
	return n
}

// setClocks changes the file as if all clocks of the machine had been set back: the times in
// the file are ahead of the clock by a duration.
func setClocks(t *testing.T, path string, ahead time.Duration) {
	t.Helper()
	execute(t, path, fmt.Sprintf("UPDATE jobs SET mod_time = mod_time + %[1]d, lease_until = lease_until + %[1]d", int64(ahead)))
}

func TestAStepOfTheClockTakesNoLiveLease(t *testing.T) {
	path := newPath(t)
	holder, taker := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, holder, newRecord(t, "job"))
	leases := []driver.Lease{driver.LeaseOf(claim(t, holder, 1)[0])}
	require.Zero(t, recoverStale(t, taker))
	for range 3 {
		setClocks(t, path, -8*time.Hour)
		assert.Zero(t, recoverStale(t, taker), "the leases seem to have been over for hours")
		sqlite.Elapse(taker, time.Minute*2/3)
		lost, err := holder.Extend(t.Context(), leases, time.Minute)
		require.NoError(t, err)
		require.Empty(t, lost)
		assert.Zero(t, recoverStale(t, taker))
	}
}

func TestADeadLeaseEndsThoughTheClockWasSetBack(t *testing.T) {
	path := newPath(t)
	holder, taker := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, holder, newRecord(t, "job"))
	r := claim(t, holder, 1)[0]
	lost, err := holder.Extend(t.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, lost)
	setClocks(t, path, 8*time.Hour)
	require.Zero(t, recoverStale(t, taker))
	sqlite.Elapse(taker, time.Minute-time.Second)
	assert.Zero(t, recoverStale(t, taker))
	sqlite.Elapse(taker, 2*time.Second)
	assert.Equal(t, 1, recoverStale(t, taker))
	assert.Equal(t, []string{"job"}, list(t, taker, amboy.StatePending))
}

// A new process has not observed a lease before, however long ago it was renewed.
func TestANewProcessObservesALeaseForItsWholeLength(t *testing.T) {
	path := newPath(t)
	killed := open(t, sqlite.Options{Path: path})
	insert(t, killed, newRecord(t, "job"))
	claim(t, killed, 1)
	setClocks(t, path, -8*time.Hour)
	for range 2 {
		d := open(t, sqlite.Options{Path: path})
		assert.Zero(t, recoverStale(t, d))
		sqlite.Elapse(d, time.Hour)
		assert.Equal(t, 1, recoverStale(t, d))
		claim(t, d, 1)
	}
}

func TestLeasesEndWithTheBootOfTheMachine(t *testing.T) {
	path := newPath(t)
	inBoot := func(id string) *sqlite.Driver {
		t.Helper()
		defer sqlite.SetBoot(id)()
		return open(t, sqlite.Options{Path: path})
	}
	first := inBoot("first")
	insert(t, first, newRecord(t, "job"))
	claim(t, first, 1)
	assert.Zero(t, recoverStale(t, inBoot("first")))

	second := inBoot("second")
	assert.Equal(t, 1, recoverStale(t, second), "the owner was a process of this machine")
	claim(t, second, 1)
	assert.Zero(t, recoverStale(t, inBoot("second")), "only the first process after a boot ends them")
	assert.Zero(t, recoverStale(t, inBoot("")), "the boot ID is unknown")
	assert.Zero(t, recoverStale(t, inBoot("third")), "a process with an unknown boot ID may hold leases")
	assert.Equal(t, 1, recoverStale(t, inBoot("fourth")))
}

func TestARecoveryThatFindsNothingDoesNotWaitForWriters(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	claim(t, d, 1)
	unlock := lock(t, path)
	defer unlock()
	assert.Zero(t, recoverStale(t, d))
}

func TestARecoveryOfManyLeasesIsOneTransaction(t *testing.T) {
	const leases = 2500
	d := open(t, sqlite.Options{Path: newPath(t)})
	records := make([]*driver.Record, leases)
	for i := range records {
		records[i] = newRecord(t, fmt.Sprint("job", i))
	}
	insert(t, d, records...)
	require.Len(t, claim(t, d, leases), leases)
	assert.Zero(t, recoverStale(t, d))
	sqlite.Elapse(d, time.Hour)
	transactions := sqlite.CountTransactions(d)
	assert.Equal(t, leases, recoverStale(t, d))
	assert.GreaterOrEqual(t, transactions.Load(), int64(2), "the last transaction may be counted later")
}
