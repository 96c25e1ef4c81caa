package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var claimRules = []rule{
	{"no more records than Limit are returned", claimLimit},
	{"larger priorities come first, then earlier arrivals", claimOrder},
	{"a record has one owner", claimOnce},
	{"a claimed record shows its lease", claimLease},
	{"the count grows with each claim", claimCount},
	{"the records are the caller's own", claimCopies},
	{"nothing is claimed before its time", claimWaitUntil},
	{"a record may start at its dispatch-by time", claimAtDispatchBy},
	{"expired records are returned beyond Limit", claimExpired},
	{"a record expires whatever it is waiting for", claimExpiredWaiting},
	{"a due record that has expired since is returned as expired", claimExpiredSinceDue},
	{"Limit 0 returns only expired records", claimLimitZero},
	{"Next is the next time at which more may become claimable", claimNext},
}

func claimLimit(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c"})
	assert.Equal(f, []string{"a", "b"}, jobIDs(f.claim(2)))
	assert.Equal(f, []string{"c"}, jobIDs(f.claim(2)))
	assert.Empty(f, f.claim(2))
}

func claimOrder(f *fixture) {
	f.insert(
		spec{id: "low", priority: -1},
		spec{id: "first"},
		spec{id: "high", priority: 5},
		spec{id: "second"},
	)
	f.insert(spec{id: "higher", priority: 6})
	assert.Equal(f, []string{"higher", "high"}, jobIDs(f.claim(2)))
	assert.Equal(f, []string{"first", "second", "low"}, jobIDs(f.claim(10)))
}

func claimOnce(f *fixture) {
	f.insert(spec{id: "job"})
	f.claimOne("job")
	assert.Empty(f, f.tryClaim("other", time.Now(), 10).Records)
	assert.Equal(f, owner, f.get("job").Status.Owner)
}

func claimLease(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"a", "b"}, enqueueScopes: []string{"b"}})
	now := wholeMillisecond(time.Now())
	claimed := f.tryClaim(owner, now, 1).Records
	require.Len(f, claimed, 1)
	for _, r := range []*driver.Record{claimed[0], f.get("job")} {
		assert.Equal(f, driver.Lease{Queue: f.queue, Name: driver.RecordName(f.queue, "job", amboy.JobRetryInfo{}), Owner: owner, Count: 1, Stamp: claimed[0].Stamp}, driver.LeaseOf(r))
		assert.True(f, r.Status.InProgress)
		assert.False(f, r.Status.Completed)
		assert.WithinDuration(f, now, r.Status.ModificationTime, time.Minute, "the time may be by the clock of the store")
		assert.True(f, now.Equal(r.TimeInfo.Start), "the start is %s", r.TimeInfo.Start)
		assert.ElementsMatch(f, []string{"a", "b"}, r.Scopes)
	}
	f.hasState("job", amboy.StateRunning)
}

func claimCount(f *fixture) {
	f.insert(spec{id: "job"})
	for count := 1; count <= 3; count++ {
		r := f.claimOne("job")
		assert.Equal(f, count, r.Status.ModificationCount)
		f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	}
}

func claimCopies(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"a"}})
	r := f.claimOne("job")
	lease := driver.LeaseOf(r)
	unchanged := f.unchanged()
	for _, r := range []*driver.Record{r, f.get("job"), f.list()[0]} {
		r.Status.Owner, r.Status.ModificationCount, r.Status.InProgress = "thief", 7, false
		r.Priority, r.Scopes, r.TimeInfo = 9, nil, amboy.JobTimeInfo{}
	}
	unchanged()
	assert.False(f, f.tryExtend(lease))
}

func claimWaitUntil(f *fixture) {
	f.insert(spec{id: "later", waitUntil: f.after(2), priority: 1}, spec{id: "late", waitUntil: f.after(1)})
	assert.Empty(f, f.claim(10))
	assert.Empty(f, f.claimAt(0.5, 10).Records)
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(1, 10).Records))
	assert.Equal(f, []string{"later"}, jobIDs(f.claimAt(3, 10).Records))
}

func claimAtDispatchBy(f *fixture) {
	f.insert(spec{id: "job", dispatchBy: f.after(1)})
	assert.Empty(f, f.claimAt(1, 0).Records, "the record has not expired yet")
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(1, 1).Records))
	assert.Empty(f, f.claimAt(2, 1).Records, "the record started in time")
}

func claimExpired(f *fixture) {
	f.insert(
		spec{id: "a", dispatchBy: f.after(1)},
		spec{id: "b", priority: 9},
		spec{id: "c", dispatchBy: f.after(2)},
		spec{id: "d", dispatchBy: f.after(9)},
	)
	claimed := f.claimAt(3, 1).Records
	require.ElementsMatch(f, []string{"a", "b", "c"}, jobIDs(claimed))
	for _, r := range claimed {
		assert.Equal(f, driver.Lease{Queue: f.queue, Name: r.Name, Owner: owner, Count: 1, Stamp: r.Stamp}, driver.LeaseOf(r))
		if r.JobID() != "b" {
			f.end(r, amboy.StateExpired)
			f.hasState(r.JobID(), amboy.StateExpired)
		}
	}
	assert.Equal(f, []string{"d"}, jobIDs(f.claimAt(3, 1).Records))
}

func claimExpiredWaiting(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"held"}, enqueueScopes: []string{"held"}, priority: 1})
	f.claimOne("holder")
	f.insert(
		spec{id: "edge", edges: []string{"holder"}, dispatchBy: f.after(1)},
		spec{id: "scope", scopes: []string{"held"}, dispatchBy: f.after(1)},
		spec{id: "parked", priority: 3, dispatchBy: f.after(1)},
		spec{id: "postponed", priority: 2, dispatchBy: f.after(1)},
	)
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("parked")), Park: true})
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("postponed")), NotBefore: f.after(5)})

	assert.ElementsMatch(f, []string{"edge", "scope", "postponed"}, jobIDs(f.claimAt(2, 0).Records))
	f.hasState("parked", amboy.StateParked)
}

func claimExpiredSinceDue(f *fixture) {
	f.insert(
		spec{id: "plain", waitUntil: f.after(1), dispatchBy: f.after(2)},
		spec{id: "scope", waitUntil: f.after(1), dispatchBy: f.after(2), scopes: []string{"s"}},
		spec{id: "other", waitUntil: f.after(1), scopes: []string{"s"}},
	)
	expired := f.claimAt(3, 0).Records
	require.ElementsMatch(f, []string{"plain", "scope"}, jobIDs(expired))
	assert.Equal(f, []string{"other"}, jobIDs(f.claimAt(3, 10).Records), "expired records took no scope")
	for _, r := range expired {
		f.end(r, amboy.StateExpired)
	}
}

func claimLimitZero(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "expired", dispatchBy: f.after(1)})
	assert.Empty(f, f.claim(0))
	assert.Equal(f, []string{"expired"}, jobIDs(f.claimAt(2, 0).Records))
	f.claimOne("job")
}

func claimNext(f *fixture) {
	next := func(hours float64) time.Time {
		f.Helper()
		return f.claimAt(hours, 0).Next
	}
	near := func(hours float64, got time.Time) {
		f.Helper()
		assert.WithinDuration(f, f.after(hours), got, time.Millisecond)
	}
	f.insert(spec{id: "ready", priority: 1})
	assert.Zero(f, next(0.1))
	f.insert(spec{id: "deadline", dispatchBy: f.after(4)}, spec{id: "scheduled", waitUntil: f.after(3)})
	near(3, next(0.1))

	r := f.claimOne("ready")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(2)})
	near(2, next(0.1))

	at := next(3.5)
	near(4, at)
	assert.True(f, at.After(f.after(4)), "a record may start at its dispatch-by time, and expires after it")
	assert.Len(f, f.claimAt(3.5, 10).Records, 3)
	assert.Zero(f, next(3.5), "a started record waits for no time")
}
