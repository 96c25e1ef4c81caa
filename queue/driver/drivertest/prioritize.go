package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var prioritizeRules = []rule{
	{"the larger priority is first afterwards", prioritizeOrder},
	{"the larger priority is first among the waiters for a scope", prioritizeScope},
	{"records that wait for time or edges, or are parked, get it too", prioritizeWaiting},
	{"a priority stays when the attempt ends or is handed back", prioritizeStays},
}

func (f *fixture) prioritize(id string, priority int) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Prioritize, Priority: priority}, id)
	require.Equal(f, priority, f.get(id).Priority)
}

func prioritizeOrder(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c"}, spec{id: "d", priority: 5})
	f.prioritize("c", 7)
	f.prioritize("d", -1)
	assert.Equal(f, []string{"c", "a", "b", "d"}, jobIDs(f.claim(10)))
}

func prioritizeScope(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "holder", scopes: s})
	r := f.claimOne("holder")
	f.insert(spec{id: "first", scopes: s}, spec{id: "second", scopes: s})
	f.hasState("second", amboy.StateBlocked)
	f.prioritize("second", 1)
	f.end(r, amboy.StateSucceeded)
	f.claimOne("second")
	assert.Empty(f, f.claim(10))
}

func prioritizeWaiting(f *fixture) {
	f.insert(spec{id: "target"})
	r := f.claimOne("target")
	f.insert(
		spec{id: "other"},
		spec{id: "edge", edges: []string{"target"}},
		spec{id: "scheduled", waitUntil: f.after(1)},
		spec{id: "parked"},
	)
	f.act(driver.Action{Kind: driver.Park}, "parked")
	f.prioritize("edge", 1)
	f.prioritize("scheduled", 2)
	f.prioritize("parked", 3)
	f.act(driver.Action{Kind: driver.Unpark}, "parked")
	f.end(r, amboy.StateSucceeded)
	assert.Equal(f, []string{"parked", "scheduled", "edge", "other"}, jobIDs(f.claimAt(1, 10).Records))
}

func prioritizeStays(f *fixture) {
	f.insert(spec{id: "a", retryable: true}, spec{id: "b"}, spec{id: "c"})
	running := f.claim(2)
	f.prioritize("a", 3)
	f.prioritize("b", 4)
	f.end(running[0], amboy.StateRetrying)
	assert.Equal(f, 3, f.get("a").Priority)
	f.prioritize("a", 5)
	assert.Equal(f, 5, f.get("a").Priority)
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[1])})
	assert.Equal(f, []string{"b", "c"}, jobIDs(f.claim(10)))
}
