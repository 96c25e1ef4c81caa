package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// clockRules are about processes whose wall clock is wrong or is set. A driver learns of
// that clock only from the arguments of calls.
var clockRules = []rule{
	{"a process whose clock is ahead does not take live leases", aheadTakesNone},
	{"a lease taken by a process with a fast clock ends in time", aheadEndsInTime},
	{"a lease taken by a process with a slow clock lasts as long as any other", behindLasts},
	{"a lease that was renewed before a clock was set back ends", endsAfterStepBack},
	{"a backoff made too long by a clock is shortened, and its times move together", aheadBackoff},
	{"a wait after a hand-back made too long by a clock is shortened", aheadHandBack},
	{"a wait of the right length is not changed", rightWaitsStay},
	{"a time set by a user is not changed, however late", userTimesStay},
	{"the time of a restart is not changed, whenever the job began to wait before", restartTimesStay},
}

// wrongClocks are the hours by which a clock is ahead.
var wrongClocks = []float64{1.0 / 60, 8, 1000}

func aheadTakesNone(f *fixture) {
	f.fill(f.queue, 0, 6)
	running := f.claim(6)
	require.Len(f, running, 6)
	unchanged := f.unchanged()
	for _, hours := range wrongClocks {
		assert.Empty(f, f.tryClaim("ahead", f.after(hours), 10).Records)
		assert.Zero(f, f.recover())
	}
	unchanged()
	for _, r := range running {
		f.end(r, amboy.StateSucceeded)
	}
}

func aheadEndsInTime(f *fixture) {
	f.insert(spec{id: "job"})
	for _, hours := range wrongClocks {
		require.Len(f, f.tryClaim("ahead", f.after(hours), 1).Records, 1)
		assert.Equal(f, 1, f.recoverEnded())
	}
}

func behindLasts(f *fixture) {
	f.insert(spec{id: "job"})
	for _, hours := range wrongClocks {
		records := f.tryClaim("behind", f.after(-hours), 1).Records
		require.Len(f, records, 1)
		f.elapse(leaseTime - time.Minute)
		assert.Zero(f, f.recover())
		assert.False(f, f.tryExtend(driver.LeaseOf(records[0])))
		assert.Equal(f, 1, f.recoverEnded())
	}
}

func endsAfterStepBack(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.tryClaim(owner, f.after(8), 1).Records[0]
	f.elapse(leaseTime / 2)
	assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	assert.Equal(f, 1, f.recoverEnded())
	assert.Equal(f, []string{"job"}, jobIDs(f.tryClaim("other", time.Now(), 1).Records))
}

// retryAhead replaces a record that awaits its retry, as a process does whose clock is
// ahead by some hours. The next attempt waits for a quarter of an hour and expires half
// an hour later.
func (f *fixture) retryAhead(r *driver.Record, hours float64) {
	f.Helper()
	next := nextAttempt(r)
	next.TimeInfo.Created = f.after(hours)
	next.TimeInfo.WaitUntil, next.TimeInfo.DispatchBy = f.after(hours+0.25), f.after(hours+0.75)
	require.NoError(f, f.tryRetry(r, next))
}

func aheadBackoff(f *fixture) {
	f.retryAhead(f.retrying(spec{id: "job"}), 8)
	assert.Empty(f, f.claimAt(1, 10).Records)
	assert.Zero(f, f.recover())
	got := f.get("job")
	assert.Equal(f, amboy.StateScheduled, stateOf(got))
	now := time.Now()
	assert.WithinDuration(f, now, got.TimeInfo.Created, time.Minute)
	assert.WithinDuration(f, now.Add(15*time.Minute), got.TimeInfo.WaitUntil, time.Minute)
	assert.Equal(f, 30*time.Minute, got.TimeInfo.DispatchBy.Sub(got.TimeInfo.WaitUntil).Round(time.Second))
	assert.WithinDuration(f, got.TimeInfo.WaitUntil, f.claimAt(0, 0).Next, time.Second)
	assert.Empty(f, f.claimAt(0.2, 10).Records)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(0.3, 10).Records))

	// A wait is shortened even if the record was parked and released.
	f.retryAhead(f.retrying(spec{id: "parked"}), 8)
	f.act(driver.Action{Kind: driver.Park}, "parked")
	assert.Zero(f, f.recover())
	f.act(driver.Action{Kind: driver.Unpark}, "parked")
	assert.Zero(f, f.recover())
	assert.Equal(f, []string{"parked"}, jobIDs(f.claimAt(0.3, 10).Records))

	// A wait is shortened even if a process with a fast clock has claimed the record and
	// handed it back before it was parked.
	f.retryAhead(f.retrying(spec{id: "claimed"}), 8)
	for _, park := range []bool{false, true} {
		claimed := f.claimAt(8.5, 10).Records
		require.Equal(f, []string{"claimed"}, jobIDs(claimed))
		f.release(driver.HandBack{Lease: driver.LeaseOf(claimed[0]), Park: park})
	}
	f.act(driver.Action{Kind: driver.Unpark}, "claimed")
	assert.Zero(f, f.recover())
	assert.Equal(f, []string{"claimed"}, jobIDs(f.claimAt(0.3, 10).Records))
}

func aheadHandBack(f *fixture) {
	f.insert(spec{id: "job", waitUntil: f.after(-2), dispatchBy: f.after(9)})
	created := f.get("job").TimeInfo
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), Since: f.after(8), NotBefore: f.after(8.25), Reason: "the disk is full"})
	assert.Empty(f, f.claimAt(1, 10).Records)
	assert.Zero(f, f.recover())
	got := f.get("job")
	assert.Equal(f, amboy.StateBlocked, stateOf(got))
	assert.Equal(f, "the disk is full", got.Status.Reason)
	assert.True(f, created.WaitUntil.Equal(got.TimeInfo.WaitUntil))
	assert.True(f, created.DispatchBy.Equal(got.TimeInfo.DispatchBy))
	assert.Empty(f, f.claimAt(0.2, 10).Records)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(0.3, 10).Records))
}

func rightWaitsStay(f *fixture) {
	f.retryAhead(f.retrying(spec{id: "retried"}), -0.1)
	f.insert(spec{id: "snoozed"})
	r := f.claimOne("snoozed")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), Since: f.after(-0.1), NotBefore: f.after(0.15)})
	unchanged := f.unchanged()
	assert.Zero(f, f.recover())
	unchanged()
	assert.Empty(f, f.claimAt(0.14, 10).Records)
	assert.Len(f, f.claimAt(0.16, 10).Records, 2)
}

func userTimesStay(f *fixture) {
	r := f.retrying(spec{id: "rescheduled"})
	f.insert(
		spec{id: "job", created: f.after(8), waitUntil: f.after(9)},
		spec{id: "handed back", priority: 1},
	)
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("handed back")), NotBefore: f.after(9)})
	f.retryAhead(r, 8)
	f.act(driver.Action{Kind: driver.Reschedule, At: f.after(9)}, "rescheduled")
	f.hasState("rescheduled", amboy.StateScheduled)
	unchanged := f.unchanged()
	assert.Zero(f, f.recover())
	unchanged()
	assert.Empty(f, f.claimAt(8.6, 10).Records)
}

func restartTimesStay(f *fixture) {
	f.retryAhead(f.retrying(spec{id: "job"}), 8)
	claimed := f.claimAt(8.5, 10).Records
	require.Equal(f, []string{"job"}, jobIDs(claimed))
	f.end(claimed[0], amboy.StateFailed)
	f.act(driver.Action{Kind: driver.Restart, At: f.after(9)}, "job")
	unchanged := f.unchanged()
	assert.Zero(f, f.recover())
	unchanged()
}
