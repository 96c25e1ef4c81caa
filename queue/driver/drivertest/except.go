package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var exceptRules = []rule{
	{"records of excluded kinds are left", exceptLeaves},
	{"another version and another dependency manager are other kinds", exceptKinds},
	{"excluded records keep their place", exceptKeepsPlace},
	{"a record handed back because its kind is unknown is unchanged", exceptHandedBack},
	{"excluded records do not count towards a limit", exceptLimits},
	{"other records are returned by priority, then by arrival", exceptOrder},
	{"an expired record is returned whatever its kind", exceptExpired},
	{"excluded records request no further claim", exceptNext},
	{"pause and limits apply to the other records", exceptControl},
	{"a held scope is held whatever the kind of its holder", exceptScopes},
	{"an excluded record is left when it becomes due or its edges end", exceptLater},
	{"a record whose type was replaced by Save is of another kind", exceptSaved},
	{"an excluded record that changes its place is left, and other owners get it", exceptMoved},
	{"an excluded backlog does not delay other records", exceptBacklog},
}

// The kinds that the tests exclude.
var (
	otherKind   = driver.Kind{Type: otherJobTypeName, Version: 1}
	newVersion  = driver.Kind{Type: jobTypeName, Version: 2}
	withManager = driver.Kind{Type: jobTypeName, Version: 1, Manager: "unknown"}
)

// claimBut claims at a time some hours after the start, as an owner that does not know
// some kinds, until no further claim is requested at once.
func (f *fixture) claimBut(hours float64, limit int, queues []string, except ...driver.Kind) driver.Claimed {
	f.Helper()
	req := f.request("old", f.after(hours), limit)
	req.Except, req.Queues = except, nil
	for _, queue := range queues {
		req.Queues = append(req.Queues, driver.Demand{Queue: queue, Limit: limit})
	}
	var all driver.Claimed
	for range 1000 {
		claimed, err := f.driver.Claim(f.ctx, req)
		require.NoError(f, err)
		f.consistent()
		all.Records = append(all.Records, claimed.Records...)
		all.Next = claimed.Next
		req.Limit -= len(claimed.Records)
		if req.Limit <= 0 || claimed.Next.IsZero() || claimed.Next.After(req.Now) {
			return all
		}
	}
	f.Fatal("each of 1,000 claims requested another at once")
	return all
}

// exceptNow is claimBut for the test's queue and now.
func (f *fixture) exceptNow(limit int, except ...driver.Kind) []string {
	f.Helper()
	return jobIDs(f.claimBut(0.1, limit, []string{f.queue}, except...).Records)
}

func exceptLeaves(f *fixture) {
	f.insert(spec{id: "new", typeName: otherJobTypeName}, spec{id: "old"})
	assert.Equal(f, []string{"old"}, f.exceptNow(10, otherKind))
	assert.Empty(f, f.exceptNow(10, otherKind))
	f.hasState("new", amboy.StatePending)
	assert.Empty(f, f.get("new").Status.Owner)
	assert.Zero(f, f.get("new").Status.ModificationCount)
	f.claimOne("new")
}

func exceptKinds(f *fixture) {
	f.insert(
		spec{id: "version", version: 2},
		spec{id: "manager", manager: "unknown"},
		spec{id: "both", version: 2, manager: "unknown"},
		spec{id: "type", typeName: otherJobTypeName},
		spec{id: "plain"},
	)
	assert.Equal(f, []string{"both", "plain"}, f.exceptNow(10, newVersion, withManager, otherKind))
	assert.Equal(f, []string{"version", "type"}, f.exceptNow(10, withManager))
	assert.Equal(f, []string{"manager"}, f.exceptNow(10, newVersion, otherKind))
}

func exceptKeepsPlace(f *fixture) {
	f.insert(
		spec{id: "a"},
		spec{id: "b", typeName: otherJobTypeName},
		spec{id: "c"},
		spec{id: "d", typeName: otherJobTypeName, priority: 1},
		spec{id: "e"},
		spec{id: "f", typeName: otherJobTypeName},
	)
	assert.Equal(f, []string{"a"}, f.exceptNow(1, otherKind))
	f.insert(spec{id: "g", typeName: otherJobTypeName}, spec{id: "h"})
	assert.Equal(f, []string{"d", "b"}, jobIDs(f.claim(2)))
	assert.Equal(f, []string{"c"}, f.exceptNow(1, otherKind))
	assert.Equal(f, []string{"e", "f", "g", "h"}, jobIDs(f.claim(10)))
}

func exceptHandedBack(f *fixture) {
	f.insert(spec{id: "new", typeName: otherJobTypeName, retryable: true, scopes: []string{"s"}}, spec{id: "second", typeName: otherJobTypeName})
	before := f.get("new")
	r := f.claimOne("new")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	after := f.get("new")
	assert.Equal(f, 1, after.Status.ModificationCount)
	after.Status.ModificationCount, after.Status.ModificationTime = 0, before.Status.ModificationTime
	f.same(before, after)
	assert.Empty(f, f.exceptNow(10, otherKind))
	assert.Equal(f, []string{"new", "second"}, jobIDs(f.claim(10)))
}

func exceptLimits(f *fixture) {
	a, b := f.in("a"), f.in("b")
	for i := range 5 {
		a.insert(spec{id: fmt.Sprint("new", i), typeName: otherJobTypeName}, spec{id: fmt.Sprint("old", i)})
	}
	b.insert(spec{id: "old0"}, spec{id: "old1"}, spec{id: "old2"})
	f.in("c").insert(spec{id: "new", typeName: otherJobTypeName})
	claimed := f.claimBut(0.1, 7, []string{"c", "a", "b"}, otherKind).Records
	ids := map[string][]string{}
	for _, r := range claimed {
		ids[r.Group] = append(ids[r.Group], r.JobID())
	}
	assert.Equal(f, map[string][]string{"a": {"old0", "old1", "old2", "old3"}, "b": {"old0", "old1", "old2"}}, ids)
}

func exceptOrder(f *fixture) {
	f.insert(
		spec{id: "low", priority: -1},
		spec{id: "new", priority: 9, typeName: otherJobTypeName},
		spec{id: "first"},
		spec{id: "version", version: 2},
		spec{id: "high", priority: 5, version: 3},
		spec{id: "second", version: 3},
		spec{id: "third"},
	)
	assert.Equal(f, []string{"high", "first"}, f.exceptNow(2, otherKind, newVersion))
	assert.Equal(f, []string{"second", "third", "low"}, f.exceptNow(10, otherKind, newVersion))
}

func exceptExpired(f *fixture) {
	f.insert(
		spec{id: "ready", typeName: otherJobTypeName, dispatchBy: f.after(1)},
		spec{id: "scheduled", typeName: otherJobTypeName, waitUntil: f.after(0.5), dispatchBy: f.after(1)},
		spec{id: "in time", typeName: otherJobTypeName, dispatchBy: f.after(9)},
	)
	assert.Empty(f, f.exceptNow(10, otherKind))
	claimed := f.claimBut(2, 10, []string{f.queue}, otherKind)
	assert.ElementsMatch(f, []string{"ready", "scheduled"}, jobIDs(claimed.Records))
	for _, r := range claimed.Records {
		f.end(r, amboy.StateExpired)
	}
	assert.WithinDuration(f, f.after(9), claimed.Next, time.Millisecond)
	assert.Equal(f, []string{"in time"}, jobIDs(f.claimAt(2, 10).Records))
}

func exceptNext(f *fixture) {
	f.insert(spec{id: "new", typeName: otherJobTypeName}, spec{id: "later", typeName: otherJobTypeName, waitUntil: f.after(3)})
	claimed := f.claimBut(0.1, 10, []string{f.queue}, otherKind)
	assert.Empty(f, claimed.Records)
	assert.WithinDuration(f, f.after(3), claimed.Next, time.Millisecond)
	claimed = f.claimBut(4, 10, []string{f.queue}, otherKind)
	assert.Empty(f, claimed.Records)
	assert.Zero(f, claimed.Next)
}

func exceptControl(f *fixture) {
	f.insert(spec{id: "new", typeName: otherJobTypeName}, spec{id: "a"}, spec{id: "b"}, spec{id: "c"})
	change := func(c driver.ControlChange) {
		f.Helper()
		_, err := f.driver.Control(f.ctx, f.queue, c)
		require.NoError(f, err)
	}
	paused, two := true, 2
	change(driver.ControlChange{Paused: &paused, MaxRunning: &two})
	assert.Empty(f, f.exceptNow(10, otherKind))
	paused = false
	change(driver.ControlChange{Paused: &paused})
	assert.Equal(f, []string{"a", "b"}, f.exceptNow(10, otherKind))
	assert.Empty(f, f.exceptNow(10, otherKind))
}

func exceptScopes(f *fixture) {
	f.insert(
		spec{id: "new", typeName: otherJobTypeName, scopes: []string{"put"}, enqueueScopes: []string{"put"}},
		spec{id: "waits", scopes: []string{"put"}},
		spec{id: "holder", scopes: []string{"s"}},
	)
	assert.Equal(f, []string{"holder"}, f.exceptNow(10, otherKind))
	f.insert(
		spec{id: "after", typeName: otherJobTypeName, scopes: []string{"s"}},
		spec{id: "free"},
	)
	assert.Equal(f, []string{"free"}, f.exceptNow(10, otherKind))
	f.end(f.get("holder"), amboy.StateSucceeded)
	assert.Empty(f, f.exceptNow(10, otherKind))
	assert.Equal(f, []string{"new", "after"}, jobIDs(f.claim(10)))
	f.end(f.get("new"), amboy.StateSucceeded)
	assert.Equal(f, []string{"waits"}, f.exceptNow(10, otherKind))
}

func exceptLater(f *fixture) {
	f.insert(spec{id: "first"})
	f.insert(
		spec{id: "edge", typeName: otherJobTypeName, edges: []string{"first"}},
		spec{id: "due", typeName: otherJobTypeName, waitUntil: f.after(1)},
		spec{id: "old", waitUntil: f.after(1)},
	)
	assert.Equal(f, []string{"first"}, f.exceptNow(10, otherKind))
	f.end(f.get("first"), amboy.StateSucceeded)
	assert.Empty(f, f.exceptNow(10, otherKind))
	assert.Equal(f, []string{"old"}, jobIDs(f.claimBut(2, 10, []string{f.queue}, otherKind).Records))
	assert.Equal(f, []string{"edge", "due"}, jobIDs(f.claimAt(2, 10).Records))
}

func exceptSaved(f *fixture) {
	f.insert(spec{id: "becomes new"}, spec{id: "becomes old", version: 2})
	save := func(id string, version int) {
		f.Helper()
		require.NoError(f, f.driver.Save(f.ctx, f.under(f.get(id), spec{id: id, version: version})))
		f.consistent()
	}
	assert.Equal(f, []string{"becomes new"}, f.exceptNow(1, newVersion))
	r := f.get("becomes new")
	save("becomes new", 2)
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	assert.Empty(f, f.exceptNow(10, newVersion))
	save("becomes old", 1)
	assert.Equal(f, []string{"becomes old"}, f.exceptNow(10, newVersion))
	save("becomes new", 1)
	assert.Empty(f, f.exceptNow(10, driver.Kind{Type: jobTypeName, Version: 1}))
	assert.Equal(f, []string{"becomes new"}, f.exceptNow(10, newVersion))
}

func exceptMoved(f *fixture) {
	f.insert(
		spec{id: "new", typeName: otherJobTypeName, scopes: []string{"s"}},
		spec{id: "last", typeName: otherJobTypeName},
		spec{id: "gone", typeName: otherJobTypeName},
		spec{id: "old"},
	)
	assert.Equal(f, []string{"old"}, f.exceptNow(10, otherKind))
	f.act(driver.Action{Kind: driver.Park}, "new")
	f.act(driver.Action{Kind: driver.Prioritize, Priority: -1}, "last")
	f.act(driver.Action{Kind: driver.Cancel}, "gone")
	f.act(driver.Action{Kind: driver.Unpark}, "new")
	f.insert(spec{id: "middle"})
	assert.Equal(f, []string{"middle"}, f.exceptNow(10, otherKind))
	assert.Equal(f, []string{"new", "last"}, jobIDs(f.claim(10)))
}

// exceptBacklog claims records one by one, as busy processes do.
func exceptBacklog(f *fixture) {
	f.unchecked = true
	backlog := 1500
	if *long {
		backlog = 100_000
	}
	specs := make([]spec, 0, 1000)
	for i := range backlog {
		specs = append(specs, spec{id: fmt.Sprint("new", i), typeName: otherJobTypeName})
		if len(specs) == cap(specs) {
			f.insert(specs...)
			specs = specs[:0]
		}
	}
	f.insert(specs...)
	const others = 20
	for i := range others {
		f.insert(spec{id: fmt.Sprint("old", i)})
	}
	took := make([]time.Duration, others)
	for i := range others {
		began := time.Now()
		require.Equal(f, []string{fmt.Sprint("old", i)}, f.exceptNow(1, otherKind))
		took[i] = time.Since(began)
	}
	took = took[1:] // the first may put the backlog aside
	slices.Sort(took)
	median := took[len(took)/2] // a busy machine slows down some
	f.Logf("behind %d excluded records half of the claims took at most %s, and all of them %s", backlog, median, took[len(took)-1])
	assert.Less(f, median, time.Second)
	assert.Equal(f, []string{"new0", "new1"}, jobIDs(f.claim(2)))
}
