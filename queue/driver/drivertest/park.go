package drivertest

import (
	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var parkRules = []rule{
	{"a parked record is not claimed and does not expire", parkHolds},
	{"a parked record keeps its enqueue scopes and its unique key", parkKeeps},
	{"an unparked record keeps its place", unparkPlace},
	{"an unparked record waits for what it waited for", unparkWaits},
	{"edges that end while a record is parked count", unparkEdges},
	{"a record that was handed back as parked can be unparked", unparkHandedBack},
}

func (f *fixture) park(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Park, Reason: "under investigation"}, ids...)
}

func (f *fixture) unpark(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Unpark}, ids...)
}

func parkHolds(f *fixture) {
	f.insert(spec{id: "job", dispatchBy: f.after(5)}, spec{id: "scheduled", waitUntil: f.after(1), dispatchBy: f.after(5)}, spec{id: "other"})
	f.park("job", "scheduled")
	f.hasState("job", amboy.StateParked)
	assert.Equal(f, "under investigation", f.get("job").Status.Reason)
	f.claimOne("other")
	claimed := f.claimAt(9, 10)
	assert.Empty(f, claimed.Records)
	assert.Zero(f, claimed.Next)
	f.end(f.get("job"), amboy.StateCanceled)
}

func parkKeeps(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "job", scopes: s, enqueueScopes: s, uniqueKey: "key"})
	f.insert(spec{id: "dependent", edges: []string{"job"}})
	f.park("job")
	assert.Equal(f, s, f.get("job").Scopes)
	f.refusedForScope(spec{id: "rival", scopes: s, enqueueScopes: s})
	f.hasKey(true, "is parked")
	f.hasState("dependent", amboy.StateBlocked)
}

func unparkPlace(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c", priority: 1})
	f.park("a", "c")
	f.claimOne("b")
	f.insert(spec{id: "d"})
	f.unpark("c", "a")
	f.hasState("a", amboy.StatePending)
	assert.Empty(f, f.get("a").Status.Reason)
	assert.Equal(f, []string{"c", "a", "d"}, jobIDs(f.claim(10)))
}

func unparkWaits(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}})
	r := f.claimOne("holder")
	f.insert(
		spec{id: "scheduled", waitUntil: f.after(1)},
		spec{id: "edge", edges: []string{"holder"}},
		spec{id: "scope", scopes: []string{"s"}},
		spec{id: "late", dispatchBy: f.after(1)},
	)
	ids := []string{"scheduled", "edge", "scope", "late"}
	f.park(ids...)
	f.unpark(ids[:3]...)
	f.hasState("scheduled", amboy.StateScheduled)
	f.hasState("edge", amboy.StateBlocked)
	f.hasState("scope", amboy.StateBlocked)
	f.end(r, amboy.StateSucceeded)
	assert.Equal(f, []string{"edge", "scope"}, jobIDs(f.claimAt(0.5, 10).Records))
	assert.Equal(f, []string{"scheduled"}, jobIDs(f.claimAt(1, 10).Records))
	assert.Empty(f, f.claimAt(2, 10).Records)
	f.unpark("late")
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(2, 0).Records), "an unparked record expires again")
}

func unparkEdges(f *fixture) {
	f.insert(spec{id: "good"}, spec{id: "bad"})
	f.insert(spec{id: "job", edges: []string{"good", "bad"}})
	f.park("job")
	running := f.claim(2)
	f.end(running[0], amboy.StateSucceeded)
	f.end(running[1], amboy.StateFailed)
	f.hasState("job", amboy.StateParked)
	assert.Empty(f, f.claim(10))
	f.unpark("job")
	assert.Equal(f, []string{"bad"}, f.claimOne("job").Dependency.Failed)
}

func unparkHandedBack(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "other"})
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), Park: true, Reason: "unknown type"})
	f.unpark("job")
	f.hasState("job", amboy.StatePending)
	assert.Empty(f, f.get("job").Status.Reason)
	again := f.claimOne("job")
	assert.Equal(f, 3, again.Status.ModificationCount)
}
