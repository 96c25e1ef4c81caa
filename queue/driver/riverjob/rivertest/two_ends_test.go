package rivertest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

// A queue repeats the end of an attempt if it does not know whether it is stored. If the next attempt
// had ended by then, both ends were written in one call, and the second was taken for a lost one. The
// job ran again.
func TestTheEndOfAJobWasLostBesideARepeatedEnd(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	id := w.insert(pythonJob{kind: "x"})
	claim := func() (driver.Lease, *driver.Record) {
		claimed, err := d.Claim(w.ctx, driver.ClaimRequest{Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute})
		require.NoError(t, err)
		require.Len(t, claimed.Records, 1)
		r := claimed.Records[0]
		lease := driver.LeaseOf(r)
		r.Status.InProgress, r.Status.Completed = false, true
		return lease, r
	}
	lease, failed := claim()
	failed.Status.AddError(errDisk, 0, time.Now())
	failed.RetryInfo.NeedsRetry = true
	first := driver.Completion{Lease: lease, Record: failed}
	errs, err := d.Complete(w.ctx, []driver.Completion{first})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	w.exec(`UPDATE {s}.river_job SET scheduled_at = now()`)
	lease, succeeded := claim()
	errs, err = d.Complete(w.ctx, []driver.Completion{first, {Lease: lease, Record: succeeded}})
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
	require.NoError(t, errs[1])
	assert.Equal(t, "completed", w.row(id).State)
}
