package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var releaseRules = []rule{
	{"a record that is handed back may run again in its turn", releaseNow},
	{"handing back is not an attempt", releaseIsNoAttempt},
	{"a record that is handed back gives up the scopes of its run", releaseFreesScopes},
	{"nothing is claimed before NotBefore", releaseNotBefore},
	{"a parked record stays and shows the reason", releasePark},
	{"a record whose job has started does not expire", releaseStarted},
	{"each of several has its own error", releaseSeveral},
}

var recoverRules = []rule{
	{"expired leases are handed back", recoverHandsBack},
	{"only running records are handed back", recoverRunning},
	{"a lease in keep is not handed back", recoverButKeep},
	{"a survey returns the time until the first lease ends", surveyFirstEnd},
}

func surveyFirstEnd(f *fixture) {
	surveyor, ok := f.drivers()[0].(driver.Surveyor)
	if !ok {
		return
	}
	staleIn := func(within time.Duration) time.Duration {
		f.Helper()
		_, in, err := surveyor.Survey(f.ctx, time.Now(), within)
		require.NoError(f, err)
		return in
	}
	assert.Equal(f, leaseTime, staleIn(leaseTime), "nothing runs")
	var leases []driver.Lease
	for _, queue := range []string{"a", "b", "c"} {
		f.in(queue).insert(spec{id: "job"})
		leases = append(leases, driver.LeaseOf(f.in(queue).claimOne("job")))
	}
	f.elapse(leaseTime / 2)
	require.False(f, f.tryExtend(leases[0]))
	require.False(f, f.tryExtend(leases[2]))
	assert.Equal(f, leaseTime/4, staleIn(leaseTime/4), "no lease ends before")
	in := staleIn(leaseTime)
	assert.Greater(f, in, leaseTime/4)
	assert.LessOrEqual(f, in, leaseTime/2+time.Second)
	f.elapse(leaseTime/2 + time.Second)
	assert.Zero(f, staleIn(leaseTime))
}

func recoverButKeep(f *fixture) {
	f.insert(spec{id: "kept"}, spec{id: "left"})
	f.claimOne("kept")
	f.claimOne("left")
	f.endLeases()
	n, err := f.driver.RecoverStale(f.ctx, driver.LeaseOf(f.get("kept")))
	require.NoError(f, err)
	assert.Equal(f, 1, n)
	f.hasState("kept", amboy.StateRunning)
	f.hasState("left", amboy.StatePending)
}

func releaseNow(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"})
	r := f.claimOne("a")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	f.hasState("a", amboy.StatePending)
	assert.Equal(f, []string{"a", "b"}, jobIDs(f.tryClaim("other", time.Now(), 2).Records))
	assert.Equal(f, "other", f.get("a").Status.Owner)
}

func releaseIsNoAttempt(f *fixture) {
	f.insert(spec{id: "job", retryable: true})
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	got := f.get("job")
	assert.Empty(f, got.Status.Owner)
	assert.Equal(f, r.Status.ModificationCount, got.Status.ModificationCount)
	assert.False(f, got.Status.InProgress)
	assert.False(f, got.Status.Completed)
	assert.True(f, got.TimeInfo.Start.IsZero(), "the start is %s", got.TimeInfo.Start)
	assert.Equal(f, r.RetryInfo, got.RetryInfo)
	assert.Len(f, f.attempts("job"), 1)
}

func releaseFreesScopes(f *fixture) {
	both := []string{"put", "run"}
	f.insert(spec{id: "job", scopes: both, enqueueScopes: both[:1], priority: 1})
	f.insert(spec{id: "put", scopes: both[:1]}, spec{id: "run", scopes: both[1:]})
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(1)})
	assert.Equal(f, []string{"put"}, f.get("job").Scopes)
	assert.Equal(f, []string{"run"}, jobIDs(f.claim(10)))
	assert.Empty(f, f.claimAt(2, 10).Records, "the job waits for its scope")
	f.end(f.get("run"), amboy.StateSucceeded)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(2, 10).Records))
}

func releaseNotBefore(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"})
	r := f.claimOne("a")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(1), Reason: "the disk is full"})
	f.hasState("a", amboy.StateBlocked)
	assert.Equal(f, "the disk is full", f.get("a").Status.Reason)
	f.claimOne("b")
	assert.Empty(f, f.claimAt(0.5, 10).Records)
	again := f.claimAt(1, 10).Records
	require.Equal(f, []string{"a"}, jobIDs(again))
	assert.Empty(f, f.get("a").Status.Reason)

	f.release(driver.HandBack{Lease: driver.LeaseOf(again[0]), NotBefore: f.after(-1)})
	f.claimOne("a")
}

func releasePark(f *fixture) {
	f.insert(
		spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, dispatchBy: f.after(5)},
		spec{id: "dependent", edges: []string{"job"}},
	)
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), Park: true, Reason: "unknown type"})
	f.hasState("job", amboy.StateParked)
	assert.Equal(f, "unknown type", f.get("job").Status.Reason)
	parked := f.list(amboy.StateParked)
	require.Equal(f, []string{"job"}, jobIDs(parked))
	assert.Equal(f, "unknown type", parked[0].Status.Reason)

	claimed := f.claimAt(9, 10)
	assert.Empty(f, claimed.Records, "a parked record is not claimed and does not expire")
	assert.Zero(f, claimed.Next)
	assert.Zero(f, f.recoverEnded())
	f.hasState("dependent", amboy.StateBlocked)
	f.refusedForScope(spec{id: "other", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
}

func releaseSeveral(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"})
	running := f.claim(2)
	f.end(running[0], amboy.StateSucceeded)
	errs, err := f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(running[0])}, {Lease: driver.LeaseOf(running[1])}})
	require.NoError(f, err)
	require.Len(f, errs, 2)
	f.lost(errs[0])
	require.NoError(f, errs[1])
	f.claimOne("b")

	errs, err = f.driver.Release(f.ctx, nil)
	require.NoError(f, err)
	assert.Empty(f, errs)
}

func recoverHandsBack(f *fixture) {
	f.insert(
		spec{id: "stale", scopes: []string{"run", "put"}, enqueueScopes: []string{"put"}},
		spec{id: "extended"},
		spec{id: "late"},
	)
	f.claimOne("stale")
	extended := f.claimOne("extended")
	f.elapse(leaseTime / 2)
	assert.False(f, f.tryExtend(driver.LeaseOf(extended)))
	f.claimOne("late")
	f.elapse(leaseTime/2 + time.Second)
	assert.Equal(f, 1, f.recover())
	assert.Zero(f, f.recover())

	got := f.get("stale")
	assert.Equal(f, amboy.StatePending, stateOf(got))
	assert.Empty(f, got.Status.Owner)
	assert.True(f, got.TimeInfo.Start.IsZero(), "the start is %s", got.TimeInfo.Start)
	assert.Equal(f, []string{"put"}, got.Scopes)
	assert.Equal(f, 2, f.claimOne("stale").Status.ModificationCount)
	f.hasState("extended", amboy.StateRunning)
	f.hasState("late", amboy.StateRunning)
}

func recoverRunning(f *fixture) {
	f.insert(spec{id: "ended"}, spec{id: "retrying", retryable: true}, spec{id: "parked"}, spec{id: "pending"})
	running := f.claim(3)
	f.end(running[0], amboy.StateSucceeded)
	f.end(running[1], amboy.StateRetrying)
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[2]), Park: true})
	unchanged := f.unchanged()
	assert.Zero(f, f.recoverEnded())
	unchanged()
}

func releaseStarted(f *fixture) {
	f.insert(
		spec{id: "stopped", dispatchBy: f.after(1)},
		spec{id: "snoozed", dispatchBy: f.after(1)},
		spec{id: "unstarted", dispatchBy: f.after(1)},
	)
	claimed := f.claim(3)
	require.Equal(f, []string{"stopped", "snoozed", "unstarted"}, jobIDs(claimed))
	f.release(driver.HandBack{Lease: driver.LeaseOf(claimed[0]), Started: true})
	f.release(driver.HandBack{Lease: driver.LeaseOf(claimed[1]), Started: true, NotBefore: f.after(3)})
	f.release(driver.HandBack{Lease: driver.LeaseOf(claimed[2])})
	assert.Equal(f, []string{"unstarted"}, jobIDs(f.claimAt(2, 0).Records), "it expires")
	f.hasState("stopped", amboy.StatePending)
	f.hasState("snoozed", amboy.StateBlocked)
	assert.Equal(f, []string{"stopped"}, jobIDs(f.claimAt(2, 10).Records))
	again := f.claimAt(4, 10).Records
	require.Equal(f, []string{"snoozed"}, jobIDs(again))
	assert.True(f, again[0].TimeInfo.DispatchBy.IsZero(), "dispatch-by is %s", again[0].TimeInfo.DispatchBy)
}
